package protolink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// DefaultTimeout bounds calls with one answer whose context has no deadline.
	DefaultTimeout = 5 * time.Minute

	// DefaultAttempts is how often in a row a call, or a stream that gets no further, is tried.
	DefaultAttempts = 5

	// maxMessageBytes bounds a message in both directions. A whole task may be larger than the 4 MiB that gRPC receives by default.
	maxMessageBytes = 64 << 20
)

// Option changes how [Dial] and [DialRegistry] connect.
type Option func(*dialOptions)

type dialOptions struct {
	tls         *tls.Config
	credentials []credentials.PerRPCCredentials
	plaintext   bool
	timeout     time.Duration
	attempts    int
	extra       []grpc.DialOption
}

// WithBearerToken sends "authorization: Bearer TOKEN" with every call.
func WithBearerToken(token string) Option {
	return WithCredentials(header{"authorization", "Bearer " + token})
}

// WithAPIKey sends "x-api-key: KEY" with every call.
func WithAPIKey(key string) Option {
	return WithCredentials(header{"x-api-key", key})
}

// WithCredentials asks c for what goes with every call: the way for tokens that are renewed.
func WithCredentials(c credentials.PerRPCCredentials) Option {
	return func(o *dialOptions) { o.credentials = append(o.credentials, c) }
}

// WithPlaintextCredentials lets credentials go over grpc:// to another machine, where anybody on the way can read them. Without it,
// that is refused; on the same machine it is always allowed.
func WithPlaintextCredentials() Option {
	return func(o *dialOptions) { o.plaintext = true }
}

// WithTLS is for grpcs:// URLs whose server is not verified by the system's roots (config.RootCAs), or wants a certificate
// (config.Certificates).
func WithTLS(config *tls.Config) Option {
	return func(o *dialOptions) { o.tls = config }
}

// WithTimeout bounds calls with one answer whose context has no deadline; 0 means without bound. Streams are bounded by their
// context alone.
func WithTimeout(timeout time.Duration) Option {
	return func(o *dialOptions) { o.timeout = timeout }
}

// WithAttempts says how often in a row a call, or a stream that gets no further, is tried; 1 tries nothing again.
func WithAttempts(attempts int) Option {
	return func(o *dialOptions) { o.attempts = attempts }
}

// WithDialOptions adds options of gRPC's own, such as interceptors or a stats handler.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(o *dialOptions) { o.extra = append(o.extra, options...) }
}

// channel is a connection to one server, and how patient its callers are.
type channel struct {
	conn     *grpc.ClientConn
	timeout  time.Duration
	attempts int
}

// Conn is the connection, credentials included, for the generated clients: pb.NewControlServiceClient(client.Conn()). Their errors
// become typed ones through [FromError].
func (c *channel) Conn() grpc.ClientConnInterface { return c.conn }

// Close closes the connection; calls and streams that use it fail.
func (c *channel) Close() error { return c.conn.Close() }

func dial(url string, options []Option) (*channel, error) {
	chosen := dialOptions{timeout: DefaultTimeout, attempts: DefaultAttempts}
	for _, option := range options {
		option(&chosen)
	}
	to, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	transport, err := chosen.transport(to)
	if err != nil {
		return nil, err
	}
	all := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// An agent that comes back is found sooner than the attempts are used up, however long it was away.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 10 * time.Second,
		}),
	}
	for _, c := range chosen.credentials {
		all = append(all, grpc.WithPerRPCCredentials(c))
	}
	conn, err := grpc.NewClient(to.target, append(all, chosen.extra...)...)
	if err != nil {
		return nil, fmt.Errorf("protolink: %s: %w", url, err)
	}
	return &channel{conn, chosen.timeout, max(chosen.attempts, 1)}, nil
}

func (o *dialOptions) transport(to address) (credentials.TransportCredentials, error) {
	switch {
	case to.secure:
		return credentials.NewTLS(o.tls), nil
	case o.tls != nil:
		return nil, fmt.Errorf("protolink: %s is in the clear; with TLS it is grpcs://%s", to.target, to.target)
	case len(o.credentials) > 0 && !to.local && !o.plaintext:
		return nil, fmt.Errorf("protolink: credentials would go to %s in the clear; use grpcs://, or WithPlaintextCredentials", to.target)
	default:
		return insecure.NewCredentials(), nil
	}
}

// address is where a URL points.
type address struct {
	target string // host:port
	secure bool
	local  bool // on this machine
}

func parseAddress(url string) (address, error) {
	whole := url
	if !strings.Contains(url, "://") {
		whole = "grpc://" + url
	}
	parsed, err := neturl.Parse(whole)
	switch {
	case err != nil:
		return address{}, fmt.Errorf("protolink: %w", errors.Unwrap(err))
	case parsed.Scheme != "grpc" && parsed.Scheme != "grpcs":
		return address{}, fmt.Errorf("protolink: %s:// is neither grpc:// nor grpcs://", parsed.Scheme)
	case parsed.User != nil || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return address{}, errors.New("protolink: a URL has a scheme, a host and a port, and nothing else")
	case parsed.Hostname() == "" || parsed.Port() == "":
		return address{}, fmt.Errorf("protolink: %q must name a host and a port, like grpc://127.0.0.1:50051", url)
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return address{
		target: net.JoinHostPort(host, parsed.Port()),
		secure: parsed.Scheme == "grpcs",
		local:  host == "localhost" || ip != nil && ip.IsLoopback(),
	}, nil
}

// header is one header that goes with every call. Whether it may go in the clear was decided by dial.
type header struct{ name, value string }

func (h header) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{h.name: h.value}, nil
}

func (header) RequireTransportSecurity() bool { return false }
