package protolink

import (
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/protolink/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestOutputIsTheNewestResult(t *testing.T) {
	at := func(second int64) *timestamppb.Timestamp { return timestamppb.New(time.Unix(second, 0)) }
	text := func(s string) []*pb.Part { return []*pb.Part{{Content: &pb.Part_Text{Text: s}}} }
	tool := func(output *pb.ToolOutput) []*pb.Part {
		return []*pb.Part{{Content: &pb.Part_ToolOutput{ToolOutput: output}}}
	}
	question := &pb.Message{Role: pb.Role_ROLE_USER, Parts: text("question"), CreateTime: at(9)}
	answer := &pb.Message{Role: pb.Role_ROLE_AGENT, Parts: text("answer"), CreateTime: at(2)}
	for want, task := range map[string]*pb.Task{
		"":       {Messages: []*pb.Message{question}},
		"answer": {Messages: []*pb.Message{answer, question}, Artifacts: []*pb.Artifact{{Parts: text("older"), CreateTime: at(1)}}},
		"newer":  {Messages: []*pb.Message{answer}, Artifacts: []*pb.Artifact{{Parts: text("newer"), CreateTime: at(3)}}},
		"3":      {Artifacts: []*pb.Artifact{{Kind: "result", Parts: tool(&pb.ToolOutput{ResultJson: "3"})}, {Kind: "preview", Parts: text("no")}}},
		"before": {Artifacts: []*pb.Artifact{{Parts: text("before")}, {Parts: tool(&pb.ToolOutput{ErrorJson: "{}"})}}},
	} {
		if got := Output(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestArgumentsBecomeAJSONObject(t *testing.T) {
	task, err := ToolCall("add", map[string]int64{"a": 1<<53 + 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := task.GetMessages()[0].GetParts()[0].GetToolCall().GetArgsJson(); got != `{"a":9007199254740993}` {
		t.Error(got)
	}
	if _, err := ToolCall("add", make(chan int)); err == nil {
		t.Error("a channel has a JSON form")
	}
}
