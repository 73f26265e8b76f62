// Bench measures this client against an agent that makes as many artifacts as "make N" says:
//
//	go run ./bench grpc://127.0.0.1:50051 5
//
// For so many seconds it sends texts of 100 bytes, 16 at a time; then it streams one task of 20,000 artifacts. It prints one line of
// JSON: requests_per_s, events_per_s and events.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
)

const (
	inFlight = 16
	bytes    = 100
	making   = "make 20000"
)

type result struct {
	RequestsPerSecond float64 `json:"requests_per_s"`
	EventsPerSecond   float64 `json:"events_per_s"`
	Events            int     `json:"events"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: bench URL SECONDS")
		os.Exit(2)
	}
	if err := bench(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func bench(url, seconds string) error {
	length, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		return err
	}
	client, err := plgrpc.Dial(url)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	if _, err := client.Card(ctx); err != nil { // connected
		return err
	}
	var measured result
	if measured.RequestsPerSecond, err = requests(ctx, client, time.Duration(length*float64(time.Second))); err != nil {
		return err
	}
	if measured.Events, measured.EventsPerSecond, err = events(ctx, client); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(measured)
}

func requests(ctx context.Context, client *plgrpc.Client, length time.Duration) (float64, error) {
	text := strings.Repeat("x", bytes)
	var done atomic.Int64
	var failed error
	var once sync.Once
	var senders sync.WaitGroup
	began := time.Now()
	for range inFlight {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for time.Since(began) < length {
				if _, err := client.Send(ctx, plgrpc.Text(text)); err != nil {
					once.Do(func() { failed = err })
					return
				}
				done.Add(1)
			}
		}()
	}
	senders.Wait()
	return float64(done.Load()) / time.Since(began).Seconds(), failed
}

func events(ctx context.Context, client *plgrpc.Client) (int, float64, error) {
	count, began := 0, time.Now()
	for _, err := range client.Stream(ctx, plgrpc.Text(making)) {
		if err != nil {
			return 0, 0, err
		}
		count++
	}
	return count, float64(count) / time.Since(began).Seconds(), nil
}
