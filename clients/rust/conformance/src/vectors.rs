//! The shared vectors: through the generated types and back, compared with the JSON form and with what they mean.
//!
//! prost keeps no unknown fields, so the vectors that have some are compared without them. Names of fields and JSON are
//! the business of prost-reflect, which reads what the generated types have written.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plgrpc_client::v1;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MapKey, ReflectMessage, Value};
use serde_json::Value as Json;

use crate::{Outcome, expect};

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Checks every vector of a folder.
pub fn check(folder: &Path) -> Outcome {
    let pool = DescriptorPool::decode(v1::FILE_DESCRIPTOR_SET)?;
    let index: Vec<Json> = serde_json::from_slice(&fs::read(folder.join("index.json"))?)?;
    expect("whether there are vectors", index.is_empty(), false)?;
    for entry in &index {
        vector(folder, &pool, entry).map_err(|error| format!("vector {}: {error}", text(entry, "name")))?;
    }
    Ok(())
}

fn text<'a>(entry: &'a Json, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

fn vector(folder: &Path, pool: &DescriptorPool, entry: &Json) -> Outcome {
    let data = fs::read(folder.join(text(entry, "file")))?;
    let encoded = through_generated(text(entry, "message"), &data)?;
    if entry["bytes_equal"] == true && entry["unknown_fields"] != true {
        expect(
            "whether its bytes are the same after a round trip",
            encoded == data,
            true,
        )?;
    }
    let kind = pool
        .get_message_by_name(text(entry, "message"))
        .ok_or("no descriptor has that name")?;
    let message = DynamicMessage::decode(kind.clone(), encoded.as_slice())?;
    let json = fs::read(folder.join(text(entry, "json")))?;
    let from_json = DynamicMessage::deserialize(kind, &mut serde_json::Deserializer::from_slice(&json))?;
    expect("whether its JSON form is the same value", from_json == message, true)?;
    for (path, wanted) in entry["expect"].as_object().into_iter().flatten() {
        let found = value_at(&message, path)?;
        // 1 and 1.0 are the same number.
        if found.as_f64().is_none() || found.as_f64() != wanted.as_f64() {
            expect(path, found, wanted.clone())?;
        }
    }
    if let Some(wanted) = entry.get("output") {
        let found = plgrpc_client::output(&v1::Task::decode(data.as_slice())?);
        expect("the output", Json::from(found), wanted.clone())?;
    }
    Ok(())
}

/// What a path leads to, as the index writes it. Null: a field or a oneof that is not set.
fn value_at(message: &DynamicMessage, path: &str) -> Fallible<Json> {
    let mut value = Value::Message(message.clone());
    let mut kind = None;
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let is_last = steps.peek().is_none();
        value = match &value {
            Value::List(list) if step == "size" && is_last => return Ok(list.len().into()),
            Value::Map(map) if step == "size" && is_last => return Ok(map.len().into()),
            Value::List(list) => list.get(step.parse::<usize>()?).ok_or("the list is shorter")?.clone(),
            Value::Map(map) => map
                .get(&MapKey::String(step.into()))
                .ok_or("the map has no such key")?
                .clone(),
            Value::Message(message) => {
                let descriptor = message.descriptor();
                if let Some(oneof) = descriptor.oneofs().find(|oneof| is_last && oneof.name() == step) {
                    let set = oneof.fields().find(|field| message.has_field(field));
                    return Ok(set.map_or(Json::Null, |field| field.name().into()));
                }
                let field = descriptor
                    .get_field_by_name(step)
                    .ok_or(format!("there is no field {step}"))?;
                if field.supports_presence() && !message.has_field(&field) {
                    return Ok(Json::Null);
                }
                kind = Some(field.kind());
                message.get_field(&field).into_owned()
            }
            _ => return Err(format!("{path} leads through a value").into()),
        };
    }
    written(&value, kind)
}

fn written(value: &Value, kind: Option<Kind>) -> Fallible<Json> {
    Ok(match value {
        Value::Bool(value) => (*value).into(),
        Value::I32(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::I64(value) => value.to_string().into(),
        Value::U64(value) => value.to_string().into(),
        Value::F32(value) => (*value).into(),
        Value::F64(value) => (*value).into(),
        Value::String(value) => value.as_str().into(),
        Value::Bytes(value) => STANDARD.encode(value).into(),
        Value::EnumNumber(number) => match kind
            .as_ref()
            .and_then(Kind::as_enum)
            .and_then(|kind| kind.get_value(*number))
        {
            Some(known) => known.name().into(),
            None => (*number).into(),
        },
        Value::Message(_) => serde_json::json!({}),
        Value::List(_) | Value::Map(_) => return Err("a path ends at one value".into()),
    })
}

/// What a generated type makes of the bytes; it must read the same value from what it has written.
fn through<M: Message + Default + PartialEq>(data: &[u8]) -> Fallible<Vec<u8>> {
    let message = M::decode(data)?;
    let encoded = message.encode_to_vec();
    expect(
        "whether it is the same value after a round trip",
        M::decode(encoded.as_slice())? == message,
        true,
    )?;
    Ok(encoded)
}

/// Rust finds no type by its name, so all of them are listed.
macro_rules! messages {
    ($($message:ident),* $(,)?) => {
        fn through_generated(name: &str, data: &[u8]) -> Fallible<Vec<u8>> {
            match name.strip_prefix("plgrpc.v1.") {
                $(Some(stringify!($message)) => through::<v1::$message>(data),)*
                _ => Err(format!("{name} is not in the list of messages").into()),
            }
        }
    };
}

messages![
    ActionCount,
    ActionEnded,
    ActionPolicyEvaluated,
    ActionRequested,
    ActionStarted,
    AgentCard,
    AgentCardSignature,
    AgentChange,
    AgentFilter,
    AgentInterface,
    AgentSkill,
    ApiKeySecurity,
    AppendTaskProgressRequest,
    AppendTaskProgressResponse,
    Approval,
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequired,
    Artifact,
    ArtifactSummary,
    ArtifactsSnapshot,
    Budget,
    BudgetDecision,
    BudgetReported,
    CallToolRequest,
    CallToolResponse,
    CancelRequested,
    CancelTaskRequest,
    CancelTaskResponse,
    CapabilityRule,
    CompactStateRequest,
    CompactStateResponse,
    CompactionSummary,
    CompleteTaskRequest,
    CompleteTaskResponse,
    ContextBoundarySnapshot,
    ContextCompacted,
    ContextItem,
    ContextManifest,
    ContextPrepared,
    Cost,
    CreateSessionRequest,
    CreateSessionResponse,
    CreateTaskRequest,
    CreateTaskResponse,
    CustomContent,
    CustomEvent,
    CustomSecurity,
    DeleteSessionRequest,
    DeleteSessionResponse,
    DeletedState,
    Delta,
    DeregisterAgentRequest,
    DeregisterAgentResponse,
    DescribeStateRequest,
    DescribeStateResponse,
    EvidenceSnapshot,
    ExportTaskRequest,
    ExportTaskResponse,
    FailTaskRequest,
    FailTaskResponse,
    Failure,
    FileContent,
    Gap,
    GetAgentCardRequest,
    GetAgentCardResponse,
    GetAgentRequest,
    GetAgentResponse,
    GetArtifactsRequest,
    GetArtifactsResponse,
    GetContextBoundaryRequest,
    GetContextBoundaryResponse,
    GetEvidenceRequest,
    GetEvidenceResponse,
    GetQueueSnapshotRequest,
    GetQueueSnapshotResponse,
    GetRunReportRequest,
    GetRunReportResponse,
    GetSessionRequest,
    GetSessionResponse,
    GetSessionSnapshotRequest,
    GetSessionSnapshotResponse,
    GetTaskRequest,
    GetTaskResponse,
    GetTaskSnapshotRequest,
    GetTaskSnapshotResponse,
    GetThreadSnapshotRequest,
    GetThreadSnapshotResponse,
    GetToolInventoryRequest,
    GetToolInventoryResponse,
    HttpSecurity,
    Infer,
    InferOutput,
    InterruptTurnRequest,
    InterruptTurnResponse,
    LinkTasksRequest,
    LinkTasksResponse,
    LinkedTask,
    ListAgentsRequest,
    ListAgentsResponse,
    ListApprovalsRequest,
    ListApprovalsResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    ListTaskSnapshotsRequest,
    ListTaskSnapshotsResponse,
    ListTasksRequest,
    ListTasksResponse,
    ListToolsRequest,
    ListToolsResponse,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    Message,
    MutualTlsSecurity,
    OAuth2Security,
    OAuthFlow,
    OfferedTool,
    OfferedTools,
    OmittedContext,
    OmittedItems,
    OpenIdConnectSecurity,
    Part,
    PauseTaskRequest,
    PauseTaskResponse,
    Payload,
    PayloadRef,
    PeerTaskLinked,
    PolicyCount,
    PolicyDecision,
    PromoteQueuedTurnRequest,
    PromoteQueuedTurnResponse,
    QueueHold,
    QueueSnapshot,
    QueuedTurn,
    RegisterAgentRequest,
    RegisterAgentResponse,
    RegisteredAgent,
    RemoveQueuedTurnRequest,
    RemoveQueuedTurnResponse,
    RenewLeaseRequest,
    RenewLeaseResponse,
    ResetStateRequest,
    ResetStateResponse,
    RespondApprovalRequest,
    RespondApprovalResponse,
    ResumeTaskRequest,
    ResumeTaskResponse,
    ResumeThreadRequest,
    ResumeThreadResponse,
    RetryTaskRequest,
    RetryTaskResponse,
    RollbackThreadRequest,
    RollbackThreadResponse,
    RouteDecision,
    RunAction,
    RunContext,
    RunEvent,
    RunOptions,
    RunStart,
    RuntimeEvent,
    SecurityScheme,
    SendTaskRequest,
    SendTaskResponse,
    Session,
    SessionCreated,
    SessionEvent,
    SessionSegment,
    SessionSnapshot,
    SessionUpdated,
    StartTaskRequest,
    StartTaskResponse,
    StartThreadRequest,
    StartThreadResponse,
    StateChange,
    StateScope,
    StateStoreReport,
    StreamRuntimeEventsRequest,
    StreamRuntimeEventsResponse,
    StreamTaskRequest,
    StreamTaskResponse,
    StreamTurnRequest,
    StreamTurnResponse,
    SubmitTurnRequest,
    SubmitTurnResponse,
    SubscribeSessionRequest,
    SubscribeSessionResponse,
    SubscribeTaskRequest,
    SubscribeTaskResponse,
    Task,
    TaskArtifactUpdated,
    TaskAttempt,
    TaskDescribed,
    TaskDescription,
    TaskErrorReported,
    TaskInput,
    TaskInputReplaced,
    TaskLink,
    TaskLinked,
    TaskMessagesAdded,
    TaskPatched,
    TaskPauseRequested,
    TaskPaused,
    TaskProgress,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskSnapshot,
    TaskStartRequested,
    TaskStatusChanged,
    TaskSubmitted,
    TaskUnlinked,
    Thread,
    ThreadRolledBack,
    ThreadSnapshot,
    ThreadStarted,
    Tool,
    ToolCall,
    ToolInventoryEntry,
    ToolInventorySnapshot,
    ToolOutput,
    Turn,
    TurnEnded,
    TurnMerged,
    TurnPromoted,
    TurnStarted,
    TurnSubmitted,
    TypedMessage,
    UnlinkTasksRequest,
    UnlinkTasksResponse,
    UpdateQueuedTurnRequest,
    UpdateQueuedTurnResponse,
    UpdateSessionRequest,
    UpdateSessionResponse,
    UpdateTaskRequest,
    UpdateTaskResponse,
    Usage,
    WatchAgentsRequest,
    WatchAgentsResponse,
    WatchApprovalsRequest,
    WatchApprovalsResponse,
    WatchPosition,
    Worker,
];
