// Vacation-weather is the weather agent of the vacation mesh, written in Go: it takes the place of examples/vacation/weather.py.
//
//	make demo-polyglot
//
// On its own it registers at the registry that the environment variable PLGRPC_REGISTRY names, if any.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/protolink-grpc/protolink-grpc/clients/go/agent"
)

const (
	forecastSchema = `{"type":"object","additionalProperties":false,"required":["destination","start","nights"],"properties":{` +
		`"destination":{"type":"string"},"start":{"type":"string","format":"date"},"nights":{"type":"integer","minimum":1,"maximum":30}}}`
	bestStartSchema = `{"type":"object","additionalProperties":false,"required":["destination","earliest"],"properties":{` +
		`"destination":{"type":"string"},"earliest":{"type":"string","format":"date"}}}`
)

func main() {
	// As every process of the mesh: its parent holds the other end of stdin, tells the registry's URL by it, and is gone when it closes.
	hasParent := flag.Bool("until-stdin-closes", false, "read the registry's URL from stdin, and end when that closes")
	url := flag.String("url", "grpc://127.0.0.1:0", "where to listen; port 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	registry := os.Getenv("PLGRPC_REGISTRY")
	if *hasParent {
		stdin := bufio.NewReader(os.Stdin)
		line, err := stdin.ReadString('\n')
		if err != nil {
			fatal(fmt.Errorf("the parent process has ended: %w", err))
		}
		registry = strings.TrimSpace(line)
		go func() { _, _ = io.Copy(io.Discard, stdin); stop() }()
	}
	if err := serve(ctx, *url, registry); err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func serve(ctx context.Context, url, registry string) error {
	tools := []agent.Tool{
		agent.NewTool("forecast", "The weather of a stay, day by day, and how well it fits.", forecastSchema, forecast),
		agent.NewTool("best_start", "The first day of the next month that suits the destination; of the best one where none does.",
			bestStartSchema, bestStart),
	}
	card := agent.Card("weather", "Forecasts the weather at the destinations and finds the best season.", url)
	card.Tags = []string{"vacation"}
	card.Metadata = map[string]string{"language": "Go"}
	options := []agent.Option{agent.WithTools(tools...)}
	if registry != "" {
		options = append(options, agent.WithRegistry(registry))
	}
	server, err := agent.Listen(card, nil, options...)
	if err != nil {
		return err
	}
	slog.Info("weather serves", "url", server.URL(), "registry", registry)
	return server.Serve(ctx)
}
