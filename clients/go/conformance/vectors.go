package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	plgrpc "github.com/protolink-grpc/protolink-grpc/clients/go"
	pb "github.com/protolink-grpc/protolink-grpc/gen/go/plgrpc/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// vector is an entry of index.json; tests/vectors/README.md says what its fields mean.
type vector struct {
	Name       string
	Message    protoreflect.FullName
	File, JSON string
	BytesEqual bool `json:"bytes_equal"`
	Expect     map[string]any
	Output     json.RawMessage // of a task that has one, or null
}

func vectors(_ context.Context, s *stage) error {
	if s.vectors == "" {
		return skip("there is no folder of vectors")
	}
	data, err := os.ReadFile(filepath.Join(s.vectors, "index.json"))
	if err != nil {
		return err
	}
	var index []vector
	if err := json.Unmarshal(data, &index); err != nil {
		return err
	}
	for _, entry := range index {
		if err := entry.check(s.vectors); err != nil {
			return fmt.Errorf("vector %s: %w", entry.Name, err)
		}
	}
	return expect("whether there are vectors", len(index) > 0, true)
}

func (v *vector) check(folder string) error {
	data, err := os.ReadFile(filepath.Join(folder, v.File))
	if err != nil {
		return err
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(v.Message)
	if err != nil {
		return err
	}
	message, again, fromJSON := kind.New().Interface(), kind.New().Interface(), kind.New().Interface()
	if err := proto.Unmarshal(data, message); err != nil {
		return err
	}
	encoded, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	if v.BytesEqual && !bytes.Equal(encoded, data) {
		return errors.New("its bytes are not the same after a round trip")
	}
	if err := proto.Unmarshal(encoded, again); err != nil {
		return err
	}
	if !proto.Equal(message, again) {
		return errors.New("it is another value after a round trip")
	}
	text, err := os.ReadFile(filepath.Join(folder, v.JSON))
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(text, fromJSON); err != nil {
		return err
	}
	discardUnknown(message.ProtoReflect())
	if !proto.Equal(message, fromJSON) {
		return errors.New("its JSON form is another value")
	}
	for path, wanted := range v.Expect {
		found, err := valueAt(message.ProtoReflect(), path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if found != wanted {
			return fmt.Errorf("%s is %.100q, not %.100q", path, fmt.Sprint(found), fmt.Sprint(wanted))
		}
	}
	if task, ok := message.(*pb.Task); ok && v.Output != nil {
		var wanted string // empty for null, as Output has it
		if err := json.Unmarshal(v.Output, &wanted); err != nil {
			return err
		}
		return expect("the output", plgrpc.Output(task), wanted)
	}
	return nil
}

// discardUnknown removes the unknown fields, at every depth.
func discardUnknown(message protoreflect.Message) {
	message.SetUnknown(nil)
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsMap() && field.MapValue().Message() != nil:
			value.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
				discardUnknown(value.Message())
				return true
			})
		case field.IsMap() || field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				discardUnknown(value.List().Get(i).Message())
			}
		default:
			discardUnknown(value.Message())
		}
		return true
	})
}

// valueAt returns what a path leads to, as JSON has it: nil for a field or a oneof that is not set.
func valueAt(message protoreflect.Message, path string) (any, error) {
	step, rest, more := strings.Cut(path, ".")
	if oneof := message.Descriptor().Oneofs().ByName(protoreflect.Name(step)); oneof != nil && !oneof.IsSynthetic() {
		if set := message.WhichOneof(oneof); set != nil {
			return string(set.Name()), nil
		}
		return nil, nil
	}
	field := message.Descriptor().Fields().ByName(protoreflect.Name(step))
	if field == nil {
		return nil, fmt.Errorf("there is no field %s", step)
	}
	if field.HasPresence() && !message.Has(field) {
		return nil, nil
	}
	value := message.Get(field)
	switch {
	case field.IsList():
		list := value.List()
		if rest == "size" {
			return float64(list.Len()), nil
		}
		step, rest, more = strings.Cut(rest, ".")
		index, err := strconv.Atoi(step)
		if err != nil || index >= list.Len() {
			return nil, fmt.Errorf("there is no element %s", step)
		}
		value = list.Get(index)
	case field.IsMap():
		if rest == "size" {
			return float64(value.Map().Len()), nil
		}
		step, rest, more = strings.Cut(rest, ".")
		value = value.Map().Get(protoreflect.ValueOfString(step).MapKey())
		if !value.IsValid() {
			return nil, fmt.Errorf("there is no key %s", step)
		}
		field = field.MapValue()
	}
	if more {
		return valueAt(value.Message(), rest)
	}
	return written(field, value), nil
}

// written is a value as the index writes it.
func written(field protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch field.Kind() {
	case protoreflect.EnumKind:
		if known := field.Enum().Values().ByNumber(value.Enum()); known != nil {
			return string(known.Name())
		}
		return float64(value.Enum())
	case protoreflect.Int64Kind:
		return strconv.FormatInt(value.Int(), 10)
	case protoreflect.Int32Kind:
		return float64(value.Int())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(value.Bytes())
	default:
		return value.Interface()
	}
}
