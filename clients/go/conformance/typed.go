package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	"github.com/protolink-grpc/protolink-grpc/clients/go/examples/calculatorv1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func typedCall(ctx context.Context, s *stage) error {
	calculator := calculatorv1.NewCalculatorClient(s.calculator.Conn())
	losing := metadata.AppendToOutgoingContext(ctx, "x-lost-answers", "2")
	sum, err := calculator.Add(losing, &calculatorv1.AddRequest{A: 20, B: proto.Int64(22)})
	if err != nil {
		return err
	}
	defaulted, err := calculator.Add(ctx, &calculatorv1.AddRequest{A: 40})
	if err != nil {
		return err
	}
	request := metadata.AppendToOutgoingContext(ctx, "x-request-id", uuid.NewString())
	losingRequest := metadata.AppendToOutgoingContext(request, "x-lost-answers", "2")
	word := uuid.NewString()
	var totals []int64
	for _, call := range []struct {
		ctx    context.Context
		amount int64
	}{{losing, 42}, {ctx, 0}, {losingRequest, 1}, {request, 1}} {
		total, err := calculator.Accumulate(call.ctx, &calculatorv1.AccumulateRequest{Name: word, Amount: call.amount})
		if err != nil {
			return err
		}
		totals = append(totals, total.GetResult().GetValue())
	}
	_, nameless := calculator.Accumulate(ctx, &calculatorv1.AccumulateRequest{Amount: 1})
	_, byZero := calculator.Divide(ctx, &calculatorv1.DivideRequest{Dividend: 1})
	task, err := s.calculator.Get(ctx, plgrpc.FromError(byZero).TaskID)
	return errors.Join(
		err,
		expect("the sum", sum.GetResult(), 42),
		expect("the sum with a default", defaulted.GetResult(), 42),
		expect("the totals", fmt.Sprint(totals), "[42 42 43 43]"),
		violates(nameless, "name"),
		violates(byZero, "divisor"),
		expect("the task of the error", task.GetId(), plgrpc.FromError(byZero).TaskID),
	)
}

func typedStream(ctx context.Context, s *stage) error {
	calculator := calculatorv1.NewCalculatorClient(s.calculator.Conn())
	word := uuid.NewString()
	request := metadata.AppendToOutgoingContext(ctx, "x-request-id", uuid.NewString())
	var counted []int64
	for _, call := range []struct {
		ctx   context.Context
		times int64
	}{
		{metadata.AppendToOutgoingContext(ctx, "x-cut-after", "20 10 30"), 50},
		{metadata.AppendToOutgoingContext(request, "x-cut-after", "3"), 10},
		{request, 10},
	} {
		totals, err := count(call.ctx, calculator, word, call.times)
		if err != nil {
			return err
		}
		counted = append(counted, totals...)
	}
	want := append(numbers(1, 60), numbers(51, 60)...)
	total, err := calculator.Accumulate(ctx, &calculatorv1.AccumulateRequest{Name: word})
	_, nameless := count(ctx, calculator, "", 1)
	return errors.Join(
		err,
		expect("the totals", fmt.Sprint(counted), fmt.Sprint(want)),
		expect("the total afterwards", total.GetResult().GetValue(), 60),
		violates(nameless, "name"),
	)
}

// count returns the responses of a stream, up to its error.
func count(ctx context.Context, calculator calculatorv1.CalculatorClient, name string, times int64) ([]int64, error) {
	stream, err := calculator.Count(ctx, &calculatorv1.CountRequest{Name: name, Times: times})
	if err != nil {
		return nil, err
	}
	var totals []int64
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return totals, nil
		}
		if err != nil {
			return totals, err
		}
		totals = append(totals, response.GetResult())
	}
}

func numbers(from, to int64) []int64 {
	var all []int64
	for number := from; number <= to; number++ {
		all = append(all, number)
	}
	return all
}

// violates fails unless the agent has rejected that field of a tool's arguments, and no other one.
func violates(err error, field string) error {
	if err := refused(err, plgrpc.ErrToolRejected); err != nil {
		return err
	}
	var fields []string
	for _, violation := range plgrpc.FromError(err).Violations {
		fields = append(fields, violation.Field)
	}
	return expect("the fields", fmt.Sprint(fields), "["+field+"]")
}
