package io.github.protolink_grpc.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class EndpointTest {

  @Test
  void theSchemeSaysWhetherItIsTls() {
    assertEquals(
        new Endpoint("agents.example", 50051, false),
        Endpoint.parse("grpc://agents.example:50051"));
    assertEquals(
        new Endpoint("agents.example", 443, true), Endpoint.parse("grpcs://agents.example:443/"));
    assertEquals(new Endpoint("127.0.0.1", 1, false), Endpoint.parse("127.0.0.1:1"));
  }

  @Test
  void anIpv6HostIsWrittenInBrackets() {
    assertEquals(new Endpoint("::1", 50051, false), Endpoint.parse("grpc://[::1]:50051"));
    assertEquals("grpc://[::1]:50051", Endpoint.parse("[::1]:50051").toString());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "localhost",
        "grpc://localhost",
        "http://localhost:80",
        "grpc://:50051",
        "grpc://a:b",
        "a:0",
        "a:65536",
        "::1:50051",
        "grpc://user:secret@a:1",
        "grpc://a:1/path",
        "grpc://a:1?q",
        "grpc://a:1#f",
        "grpc://a b:1",
        "GRPC//a:1",
        "a:1\n"
      })
  void anythingElseIsRefused(String url) {
    assertThrows(IllegalArgumentException.class, () -> Endpoint.parse(url));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "localhost:1",
        "LOCALHOST:1",
        "127.0.0.1:1",
        "127.1.2.3:1",
        "[::1]:1",
        "grpcs://agents.example:1"
      })
  void trafficOnThisMachineOrOverTlsCannotBeRead(String url) {
    assertTrue(Endpoint.parse(url).isConfidential());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "agents.example:1",
        "10.0.0.1:1",
        "127.0.0.1.example:1",
        "localhost.example:1",
        "[::2]:1"
      })
  void trafficToOtherMachinesCanBeRead(String url) {
    assertFalse(Endpoint.parse(url).isConfidential());
  }
}
