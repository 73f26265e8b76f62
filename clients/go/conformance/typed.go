package main

import (
	"context"
	"errors"
	"fmt"

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
