// Calculator calls an agent's typed service with generated code: requests and answers are structs.
//
//	plgrpc conformance serve                             # prints the URL of a calculator, among others
//	go run ./examples/calculator grpc://127.0.0.1:PORT
//
// The stubs in ../calculatorv1 were made by plgrpc gen --lang go --proto calculator.proto.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	"github.com/protolink-grpc/protolink-grpc/clients/go/examples/calculatorv1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "the URL of the calculator is missing")
		os.Exit(2)
	}
	if err := calculate(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func calculate(ctx context.Context, url string) error {
	client, err := plgrpc.Dial(url)
	if err != nil {
		return err
	}
	defer client.Close()
	calculator := calculatorv1.NewCalculatorClient(client.Conn())

	var headers metadata.MD // of the answer
	sum, err := calculator.Add(ctx, &calculatorv1.AddRequest{A: 20, B: proto.Int64(22)}, grpc.Header(&headers))
	if err != nil {
		return err
	}
	fmt.Printf("20 + 22 = %d\n", sum.GetResult())

	// The call was a task of its own, with its log.
	task, err := client.Get(ctx, headers.Get("x-task-id")[0])
	if err != nil {
		return err
	}
	fmt.Println(task.GetState())

	// After an interruption the stream continues, and no response is received twice.
	totals, err := calculator.Count(ctx, &calculatorv1.CountRequest{Name: "steps", Times: 3})
	if err != nil {
		return err
	}
	for {
		total, err := totals.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		fmt.Println(total.GetResult())
	}

	_, err = calculator.Accumulate(ctx, &calculatorv1.AccumulateRequest{Amount: 1})
	var refused *plgrpc.Error
	if !errors.As(err, &refused) || !errors.Is(err, plgrpc.ErrToolRejected) {
		return fmt.Errorf("a total without a name is not refused: %w", err)
	}
	for _, violation := range refused.Violations {
		fmt.Printf("%s: %s\n", violation.Field, violation.Description)
	}
	return nil
}
