package plgrpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"slices"
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

	// DefaultPatience is how long interrupted calls and streams are retried without progress.
	DefaultPatience = time.Minute

	// maxMessageBytes bounds a message in both directions. A whole task may be larger than the 4 MiB that gRPC receives by default.
	maxMessageBytes = 64 << 20
)

var sizes = []grpc.CallOption{grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)}

// Option changes how [Dial] and [DialRegistry] connect.
type Option func(*dialOptions)

type dialOptions struct {
	tls         *tls.Config
	credentials []credentials.PerRPCCredentials
	secrets     []header
	plaintext   bool
	timeout     time.Duration
	patience    time.Duration
	headers     []header
	extra       []grpc.DialOption
}

// WithBearerToken sends "authorization: Bearer TOKEN" with every call.
func WithBearerToken(token string) Option {
	return withSecret(header{"authorization", "Bearer " + token})
}

// WithAPIKey sends "x-api-key: KEY" with every call.
func WithAPIKey(key string) Option {
	return withSecret(header{"x-api-key", key})
}

func withSecret(h header) Option {
	return func(o *dialOptions) { o.secrets = append(o.secrets, h) }
}

// WithCredentials asks c for what goes with every call: the way for tokens that are renewed.
func WithCredentials(c credentials.PerRPCCredentials) Option {
	return func(o *dialOptions) { o.credentials = append(o.credentials, c) }
}

// WithInsecureOK lets credentials go over grpc:// to another machine, where anybody on the way can read them. Without it,
// that is refused; on the same machine it is always allowed.
func WithInsecureOK() Option {
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

// WithPatience sets how long interrupted calls and streams are retried without progress; 0 means no retries. The time starts with the first
// interruption after the last progress: a response, an event, or a stream that was open for a second. The backoff grows from 0.1 s to 5 s.
func WithPatience(patience time.Duration) Option {
	return func(o *dialOptions) { o.patience = patience }
}

// WithHeader sends a header with every call that has none of that name itself: metadata.AppendToOutgoingContext adds one to a single
// call. Headers with credentials (authorization, proxy-authorization, x-api-key, cookie), those of a single call as well, are held to
// the rule of [WithInsecureOK].
func WithHeader(name, value string) Option {
	return func(o *dialOptions) { o.headers = append(o.headers, header{strings.ToLower(name), value}) }
}

// WithDialOptions adds options of gRPC's own, such as interceptors (grpc.WithChainUnaryInterceptor), a stats handler or a dialer. An
// interceptor is called for each attempt; headers that it adds are held to the rule of [WithInsecureOK], PerRPCCredentials that
// are given here only to their own.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(o *dialOptions) { o.extra = append(o.extra, options...) }
}

// channel is a connection to one server, and how patient its callers are.
type channel struct {
	conn     grpc.ClientConnInterface
	close    func() error
	timeout  time.Duration
	patience time.Duration
}

// Close closes the connection; calls and streams that use it fail.
func (c *channel) Close() error { return c.close() }

func chosen(options []Option) (dialOptions, error) {
	all := dialOptions{timeout: DefaultTimeout, patience: DefaultPatience}
	for _, option := range options {
		option(&all)
	}
	for _, h := range slices.Concat(all.headers, all.secrets) {
		if err := checkHeader(h.name, h.value); err != nil {
			return all, err
		}
	}
	for _, h := range all.secrets {
		all.credentials = append(all.credentials, h)
	}
	return all, nil
}

// over is a channel over a connection that the caller provides.
func over(conn grpc.ClientConnInterface, options []Option) (*channel, error) {
	all, err := chosen(options)
	if err != nil {
		return nil, err
	}
	if all.tls != nil || len(all.extra) > 0 {
		return nil, errors.New("plgrpc: WithTLS and WithDialOptions say how to connect; this connection exists already")
	}
	g := &guard{headers: all.headers, credentials: all.credentials, asksTransport: !all.plaintext}
	return &channel{guarded{conn, g}, func() error { return nil }, all.timeout, all.patience}, nil
}

func dial(url string, options []Option) (*channel, error) {
	all, err := chosen(options)
	if err != nil {
		return nil, err
	}
	to, err := parseAddress(url)
	if err != nil {
		return nil, err
	}
	transport, err := all.transport(to)
	if err != nil {
		return nil, err
	}
	g := &guard{headers: all.headers, target: to.target, refuses: !to.secure && !to.local && !all.plaintext}
	settings := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(sizes...),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		// The pauses between attempts are this package's; gRPC's own must not be longer.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 10 * time.Second,
		}),
	}
	for _, c := range all.credentials {
		settings = append(settings, grpc.WithPerRPCCredentials(c))
	}
	settings = append(settings, all.extra...)
	// Last, and so behind the interceptors of the caller: it sees the headers that they add.
	settings = append(settings, grpc.WithChainUnaryInterceptor(g.unary), grpc.WithChainStreamInterceptor(g.stream))
	conn, err := grpc.NewClient(to.target, settings...)
	if err != nil {
		return nil, fmt.Errorf("plgrpc: %s: %w", url, err)
	}
	return &channel{conn, conn.Close, all.timeout, all.patience}, nil
}

func (o *dialOptions) transport(to address) (credentials.TransportCredentials, error) {
	switch {
	case to.secure:
		return credentials.NewTLS(o.tls), nil
	case o.tls != nil:
		return nil, fmt.Errorf("plgrpc: %s is unencrypted; with TLS it is grpcs://%s", to.target, to.target)
	case (len(o.credentials) > 0 || slices.ContainsFunc(o.headers, header.isCredential)) && !to.local && !o.plaintext:
		return nil, fmt.Errorf("plgrpc: credentials would go to %s unencrypted; use grpcs://, or WithInsecureOK", to.target)
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
		return address{}, fmt.Errorf("plgrpc: %w", errors.Unwrap(err))
	case parsed.Scheme != "grpc" && parsed.Scheme != "grpcs":
		return address{}, fmt.Errorf("plgrpc: %s:// is neither grpc:// nor grpcs://", parsed.Scheme)
	case parsed.User != nil || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "":
		return address{}, errors.New("plgrpc: a URL has a scheme, a host and a port, and nothing else")
	case parsed.Hostname() == "" || parsed.Port() == "":
		return address{}, fmt.Errorf("plgrpc: %q must name a host and a port, like grpc://127.0.0.1:50051", url)
	}
	host := parsed.Hostname()
	ip := net.ParseIP(host)
	return address{
		target: net.JoinHostPort(host, parsed.Port()),
		secure: parsed.Scheme == "grpcs",
		local:  host == "localhost" || ip != nil && ip.IsLoopback(),
	}, nil
}
