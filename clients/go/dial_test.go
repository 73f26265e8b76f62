package plgrpc

import (
	"crypto/tls"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	for url, want := range map[string]address{
		"grpc://127.0.0.1:50051":     {"127.0.0.1:50051", false, true},
		"grpcs://agents.example:443": {"agents.example:443", true, false},
		"localhost:1":                {"localhost:1", false, true},
		"grpc://[::1]:50051/":        {"[::1]:50051", false, true},
		"10.0.0.7:50051":             {"10.0.0.7:50051", false, false},
	} {
		if got, err := parseAddress(url); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", url, got, err, want)
		}
	}
	for _, url := range []string{
		"", "grpc://", "grpc://host", "host", ":50051", "http://host:1", "grpc://host:port", "grpc://user:secret@host:1",
		"grpc://host:1/path", "grpc://host:1?query", "grpc://host:1#fragment", "grpc://ho st:1",
	} {
		if got, err := parseAddress(url); err == nil {
			t.Errorf("%q is %v, and not refused", url, got)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q is refused with its password: %v", url, err)
		}
	}
}

func TestCredentialsStayOnThisMachineOrBehindTLS(t *testing.T) {
	for _, c := range []struct {
		url     string
		options []Option
		ok      bool
	}{
		{"grpc://127.0.0.1:1", []Option{WithBearerToken("t")}, true},
		{"grpc://agents.example:1", []Option{WithBearerToken("t")}, false},
		{"grpc://agents.example:1", []Option{WithAPIKey("k")}, false},
		{"grpc://agents.example:1", nil, true},
		{"grpc://agents.example:1", []Option{WithAPIKey("k"), WithInsecureOK()}, true},
		{"grpcs://agents.example:1", []Option{WithAPIKey("k")}, true},
		{"grpc://127.0.0.1:1", []Option{WithTLS(&tls.Config{})}, false},
	} {
		client, err := Dial(c.url, c.options...)
		if (err == nil) != c.ok {
			t.Errorf("%s with %d options: %v", c.url, len(c.options), err)
		}
		if err == nil {
			client.Close()
		}
	}
}
