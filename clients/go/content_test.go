package plgrpc

import (
	"errors"
	"testing"
	"time"

	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func result(text string) *pb.ToolOutput {
	return &pb.ToolOutput{Outcome: &pb.ToolOutput_Result{Result: &pb.Payload{Value: &pb.Payload_Json{Json: text}}}}
}

func TestAProtobufMessageIsReadAsTheTypeThatItIs(t *testing.T) {
	when := timestamppb.New(time.Unix(7, 0))
	part, err := MessagePart(when)
	if err != nil {
		t.Fatal(err)
	}
	if name := part.GetData().GetMessage().GetTypeName(); name != "google.protobuf.Timestamp" {
		t.Error(name)
	}
	var read timestamppb.Timestamp
	if err := Decode(part, &read); err != nil || read.GetSeconds() != 7 {
		t.Errorf("%v, %v", &read, err)
	}
	var other pb.Task
	if err := Decode(part, &other); err == nil {
		t.Error("a message of another type is read")
	}
	part.GetData().Encoding = "aes"
	if err := Decode(part, &read); err == nil {
		t.Error("an encoded message is read")
	}
}

func TestTheResultOfAToolIsReadIntoAValue(t *testing.T) {
	var sum int
	if err := DecodeToolOutput(result("3"), &sum); err != nil || sum != 3 {
		t.Errorf("%d, %v", sum, err)
	}
	failed := &pb.ToolOutput{CallId: "c", Outcome: &pb.ToolOutput_Failure{Failure: &pb.Failure{Reason: "TOOL_FAILED", Message: "no"}}}
	var refusal *ToolError
	if err := DecodeToolOutput(failed, &sum); !errors.As(err, &refusal) || refusal.CallID != "c" || refusal.Code != "TOOL_FAILED" {
		t.Error(err)
	}
	if err := DecodeToolOutput(&pb.ToolOutput{}, &sum); err == nil {
		t.Error("an output without a result is read")
	}
}

func TestOutputIsWhatTheAgentNamesAsTheAnswer(t *testing.T) {
	text := func(s string) []*pb.Part { return []*pb.Part{{Content: &pb.Part_Text{Text: s}}} }
	failed := &pb.Part{Content: &pb.Part_ToolOutput{ToolOutput: &pb.ToolOutput{Outcome: &pb.ToolOutput_Failure{Failure: &pb.Failure{}}}}}
	done := &pb.Part{Content: &pb.Part_ToolOutput{ToolOutput: result("3")}}
	for want, task := range map[string]*pb.Task{
		"":         {Messages: []*pb.Message{{Parts: text("not named")}}},
		"said":     {OutputId: "m", Messages: []*pb.Message{{Id: "m", Parts: text("said")}, {Id: "n", Parts: text("more")}}},
		"made":     {OutputId: "a", Artifacts: []*pb.Artifact{{Id: "a", Parts: text("made")}}},
		"3":        {OutputId: "a", Artifacts: []*pb.Artifact{{Id: "a", Parts: append(text("before"), done)}}},
		"its text": {OutputId: "a", Artifacts: []*pb.Artifact{{Id: "a", Parts: append(text("its text"), failed)}}},
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
	if got := task.GetMessages()[0].GetParts()[0].GetToolCall().GetArguments().GetJson(); got != `{"a":9007199254740993}` {
		t.Error(got)
	}
	if _, err := ToolCall("add", make(chan int)); err == nil {
		t.Error("a channel has a JSON form")
	}
}

func TestPartsAreReadAsTheyWereMade(t *testing.T) {
	type trip struct{ To string }
	data, err := JSONPart(trip{"Lisbon"})
	if err != nil {
		t.Fatal(err)
	}
	call, err := ToolCallPart("book", trip{"Porto"})
	if err != nil {
		t.Fatal(err)
	}
	link := LinkPart("map.png", "image/png", "https://example.com/map.png")
	parts := []*pb.Part{TextPart("Bom "), data, FilePart("a.txt", "text/plain", []byte("bytes")), call, TextPart("dia"), link}
	if said := TextOf(parts); said != "Bom dia" {
		t.Error(said)
	}
	var read trip
	if err := Decode(data, &read); err != nil || read.To != "Lisbon" {
		t.Errorf("%v, %v", read, err)
	}
	files := FilesOf(parts)
	if len(files) != 2 || string(files[0].GetContent().GetData()) != "bytes" || files[1].GetContent().GetData() != nil || files[1].GetContent().GetRef().GetUri() == "" {
		t.Errorf("files %v", files)
	}
	if calls := ToolCallsOf(parts); len(calls) != 1 || calls[0].GetCallId() == "" || calls[0].GetArguments().GetJson() != `{"To":"Porto"}` {
		t.Errorf("calls %v", calls)
	}
	if Decode(parts[0], &read) == nil || Decode(parts[2], &read) == nil {
		t.Error("a text or a file is decoded as JSON")
	}
}

func TestOutputsOfToolsAreDecodedAndTheirErrorsAreErrors(t *testing.T) {
	made := func(output *pb.ToolOutput) *pb.Task {
		parts := []*pb.Part{{Content: &pb.Part_ToolOutput{ToolOutput: output}}}
		return &pb.Task{Id: "t", OutputId: "a", Artifacts: []*pb.Artifact{{Id: "a", Parts: parts}}}
	}
	var sum int64
	if err := DecodeOutput(made(result("9007199254740993")), &sum); err != nil || sum != 1<<53+1 {
		t.Errorf("%d, %v", sum, err)
	}
	failed := made(&pb.ToolOutput{CallId: "c", Outcome: &pb.ToolOutput_Failure{
		Failure: &pb.Failure{Reason: "TOOL_FAILED", Message: "no numbers"},
	}})
	var why *ToolError
	if err := Decode(PartsOf(failed)[0], &sum); !errors.As(err, &why) || why.Code != "TOOL_FAILED" || why.Message != "no numbers" {
		t.Errorf("%v", err)
	}
	if outputs := ToolOutputsOf(PartsOf(failed)); len(outputs) != 1 || outputs[0].GetCallId() != "c" {
		t.Errorf("outputs %v", outputs)
	}
	if DecodeOutput(failed, &sum) == nil {
		t.Error("a failed tool has an output")
	}
}
