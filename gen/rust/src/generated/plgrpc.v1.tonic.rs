// @generated
/// Generated client implementations.
pub mod agent_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /** AgentService accepts tasks, runs them, and returns or streams their state and events.

 Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
 UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
 UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
 the principal that sent it; for every other principal it does not exist.

 Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
 messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
 GetTaskRequest).
*/
    #[derive(Debug, Clone)]
    pub struct AgentServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl AgentServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> AgentServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> AgentServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            AgentServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /** GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
*/
        pub async fn get_agent_card(
            &mut self,
            request: impl tonic::IntoRequest<super::GetAgentCardRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetAgentCardResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/GetAgentCard",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "GetAgentCard"));
            self.inner.unary(req, path, codec).await
        }
        /** SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.

 The run does not end with the call: a deadline limits only the wait.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
 ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
 FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
*/
        pub async fn send_task(
            &mut self,
            request: impl tonic::IntoRequest<super::SendTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SendTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/SendTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "SendTask"));
            self.inner.unary(req, path, codec).await
        }
        /** StreamTask starts or continues a task, as SendTask, and streams the events of the turn as they are committed. It ends when the
 task is terminal or waits for input.

 Errors: those of SendTask.
*/
        pub async fn stream_task(
            &mut self,
            request: impl tonic::IntoRequest<super::StreamTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::StreamTaskResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/StreamTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "StreamTask"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** SubscribeTask streams a task's events after a position: first the stored events, then new events as they are committed, without
 gaps or repetitions. WatchPosition has the rules.

 Errors: NOT_FOUND/TASK_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE, OUT_OF_RANGE/POSITION_COMPACTED: the log begins after the
 position; read the task with GetTask and continue after its `sequence`.
*/
        pub async fn subscribe_task(
            &mut self,
            request: impl tonic::IntoRequest<super::SubscribeTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::SubscribeTaskResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/SubscribeTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "SubscribeTask"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** GetTask returns the current state of a task. Default view: full.

 Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
 call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn get_task(
            &mut self,
            request: impl tonic::IntoRequest<super::GetTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/GetTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "GetTask"));
            self.inner.unary(req, path, codec).await
        }
        /** ListTasks returns the caller's tasks, most recently changed first. Default view: header.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn list_tasks(
            &mut self,
            request: impl tonic::IntoRequest<super::ListTasksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListTasksResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/ListTasks",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "ListTasks"));
            self.inner.unary(req, path, codec).await
        }
        /** CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
 state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
*/
        pub async fn cancel_task(
            &mut self,
            request: impl tonic::IntoRequest<super::CancelTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CancelTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.AgentService/CancelTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.AgentService", "CancelTask"));
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod agent_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with AgentServiceServer.
    #[async_trait]
    pub trait AgentService: std::marker::Send + std::marker::Sync + 'static {
        /** GetAgentCard returns the card of the agent. An encoded card is at most 1 MiB: see AgentCard.
*/
        async fn get_agent_card(
            &self,
            request: tonic::Request<super::GetAgentCardRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetAgentCardResponse>,
            tonic::Status,
        >;
        /** SendTask starts or continues a task and waits until the task is terminal or waits for input. Default view: turn.

 The run does not end with the call: a deadline limits only the wait.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/MESSAGE_TOO_LARGE, NOT_FOUND/TASK_NOT_FOUND,
 ALREADY_EXISTS/TASK_ALREADY_EXISTS, ABORTED/SEQUENCE_CONFLICT, FAILED_PRECONDITION/TASK_FINISHED,
 FAILED_PRECONDITION/TASK_ALREADY_RUNNING, FAILED_PRECONDITION/DELEGATION_CYCLE, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
*/
        async fn send_task(
            &self,
            request: tonic::Request<super::SendTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SendTaskResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the StreamTask method.
        type StreamTaskStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::StreamTaskResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** StreamTask starts or continues a task, as SendTask, and streams the events of the turn as they are committed. It ends when the
 task is terminal or waits for input.

 Errors: those of SendTask.
*/
        async fn stream_task(
            &self,
            request: tonic::Request<super::StreamTaskRequest>,
        ) -> std::result::Result<tonic::Response<Self::StreamTaskStream>, tonic::Status>;
        /// Server streaming response type for the SubscribeTask method.
        type SubscribeTaskStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::SubscribeTaskResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** SubscribeTask streams a task's events after a position: first the stored events, then new events as they are committed, without
 gaps or repetitions. WatchPosition has the rules.

 Errors: NOT_FOUND/TASK_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE, OUT_OF_RANGE/POSITION_COMPACTED: the log begins after the
 position; read the task with GetTask and continue after its `sequence`.
*/
        async fn subscribe_task(
            &self,
            request: tonic::Request<super::SubscribeTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::SubscribeTaskStream>,
            tonic::Status,
        >;
        /** GetTask returns the current state of a task. Default view: full.

 Of a large task it returns only the newest messages and artifacts, and always the latest message. To get the others, repeat the
 call with `before_message` and `before_artifact` set to `first_message` and `first_artifact` of the response, until both are 0.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn get_task(
            &self,
            request: tonic::Request<super::GetTaskRequest>,
        ) -> std::result::Result<tonic::Response<super::GetTaskResponse>, tonic::Status>;
        /** ListTasks returns the caller's tasks, most recently changed first. Default view: header.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn list_tasks(
            &self,
            request: tonic::Request<super::ListTasksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListTasksResponse>,
            tonic::Status,
        >;
        /** CancelTask appends a CancelRequested event, interrupts the run, and waits up to 10 seconds for the task to end. If the returned
 state is not canceled, the run is still stopping: watch the task. The call is never queued behind running work.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_NOT_CANCELABLE.
*/
        async fn cancel_task(
            &self,
            request: tonic::Request<super::CancelTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CancelTaskResponse>,
            tonic::Status,
        >;
    }
    /** AgentService accepts tasks, runs them, and returns or streams their state and events.

 Every error carries `google.rpc.ErrorInfo` with a reason in domain `protolink-grpc.github.io`. All methods may also fail with
 UNAUTHENTICATED/UNAUTHENTICATED, PERMISSION_DENIED/PERMISSION_DENIED, DEADLINE_EXCEEDED/DEADLINE_EXCEEDED, INTERNAL/INTERNAL and
 UNAVAILABLE/UNAVAILABLE. Methods that read a log of a later version fail with FAILED_PRECONDITION/LOG_TOO_NEW. A task belongs to
 the principal that sent it; for every other principal it does not exist.

 Requests are at most 4 MiB. Responses of methods without a stream are smaller than 4 MiB, the default limit of gRPC for received
 messages. A larger task is returned in parts: each response has the newest messages and artifacts, up to about 3 MiB (see
 GetTaskRequest).
*/
    #[derive(Debug)]
    pub struct AgentServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> AgentServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for AgentServiceServer<T>
    where
        T: AgentService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/plgrpc.v1.AgentService/GetAgentCard" => {
                    #[allow(non_camel_case_types)]
                    struct GetAgentCardSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::UnaryService<super::GetAgentCardRequest>
                    for GetAgentCardSvc<T> {
                        type Response = super::GetAgentCardResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetAgentCardRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::get_agent_card(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetAgentCardSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.AgentService/SendTask" => {
                    #[allow(non_camel_case_types)]
                    struct SendTaskSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::UnaryService<super::SendTaskRequest>
                    for SendTaskSvc<T> {
                        type Response = super::SendTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::SendTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::send_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SendTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.AgentService/StreamTask" => {
                    #[allow(non_camel_case_types)]
                    struct StreamTaskSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::ServerStreamingService<super::StreamTaskRequest>
                    for StreamTaskSvc<T> {
                        type Response = super::StreamTaskResponse;
                        type ResponseStream = T::StreamTaskStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StreamTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::stream_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = StreamTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.AgentService/SubscribeTask" => {
                    #[allow(non_camel_case_types)]
                    struct SubscribeTaskSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::ServerStreamingService<super::SubscribeTaskRequest>
                    for SubscribeTaskSvc<T> {
                        type Response = super::SubscribeTaskResponse;
                        type ResponseStream = T::SubscribeTaskStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::SubscribeTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::subscribe_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SubscribeTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.AgentService/GetTask" => {
                    #[allow(non_camel_case_types)]
                    struct GetTaskSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::UnaryService<super::GetTaskRequest>
                    for GetTaskSvc<T> {
                        type Response = super::GetTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::get_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.AgentService/ListTasks" => {
                    #[allow(non_camel_case_types)]
                    struct ListTasksSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::UnaryService<super::ListTasksRequest>
                    for ListTasksSvc<T> {
                        type Response = super::ListTasksResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListTasksRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::list_tasks(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListTasksSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.AgentService/CancelTask" => {
                    #[allow(non_camel_case_types)]
                    struct CancelTaskSvc<T: AgentService>(pub Arc<T>);
                    impl<
                        T: AgentService,
                    > tonic::server::UnaryService<super::CancelTaskRequest>
                    for CancelTaskSvc<T> {
                        type Response = super::CancelTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CancelTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as AgentService>::cancel_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CancelTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for AgentServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "plgrpc.v1.AgentService";
    impl<T> tonic::server::NamedService for AgentServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod control_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /** ControlService controls an agent while it works. Its calls are never queued behind runs.

 Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
*/
    #[derive(Debug, Clone)]
    pub struct ControlServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl ControlServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> ControlServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> ControlServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            ControlServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /** ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn list_approvals(
            &mut self,
            request: impl tonic::IntoRequest<super::ListApprovalsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListApprovalsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/ListApprovals",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "ListApprovals"));
            self.inner.unary(req, path, codec).await
        }
        /** WatchApprovals streams approvals as they are requested and decided. It does not end by itself. WatchPosition has the rules.

 Without `after_revision`, the stream begins with a snapshot of the pending approvals. With `after_revision`, it begins with the
 approvals that changed after that revision, each in its current state, including decisions made while the reader was
 disconnected.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn watch_approvals(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchApprovalsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchApprovalsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/WatchApprovals",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "WatchApprovals"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
 Repeating a request with the same `request_id` is safe: it returns the first response again.

 Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
 FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
 edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
*/
        pub async fn respond_approval(
            &mut self,
            request: impl tonic::IntoRequest<super::RespondApprovalRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RespondApprovalResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/RespondApproval",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "RespondApproval"));
            self.inner.unary(req, path, codec).await
        }
        /** GetRunReport returns the report of a run in pieces; concatenated they are the report.

 Errors: NOT_FOUND/TASK_NOT_FOUND (also if the task has no such run).
*/
        pub async fn get_run_report(
            &mut self,
            request: impl tonic::IntoRequest<super::GetRunReportRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::GetRunReportResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/GetRunReport",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "GetRunReport"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** ExportTask returns the log of a task in another format, in pieces; concatenated they are the export.

 Errors: NOT_FOUND/TASK_NOT_FOUND, INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn export_task(
            &mut self,
            request: impl tonic::IntoRequest<super::ExportTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::ExportTaskResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/ExportTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "ExportTask"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
 empty.

 A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
*/
        pub async fn describe_state(
            &mut self,
            request: impl tonic::IntoRequest<super::DescribeStateRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DescribeStateResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/DescribeState",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "DescribeState"));
            self.inner.unary(req, path, codec).await
        }
        /** ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
*/
        pub async fn reset_state(
            &mut self,
            request: impl tonic::IntoRequest<super::ResetStateRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResetStateResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/ResetState",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "ResetState"));
            self.inner.unary(req, path, codec).await
        }
        /** CompactState shortens the stored conversation of a session, without those of its other threads.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
*/
        pub async fn compact_state(
            &mut self,
            request: impl tonic::IntoRequest<super::CompactStateRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CompactStateResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/CompactState",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "CompactState"));
            self.inner.unary(req, path, codec).await
        }
        /** ListTools returns the agent's tools, ordered by name.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn list_tools(
            &mut self,
            request: impl tonic::IntoRequest<super::ListToolsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListToolsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/ListTools",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "ListTools"));
            self.inner.unary(req, path, codec).await
        }
        /** CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.

 The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
 deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
 PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
 FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
*/
        pub async fn call_tool(
            &mut self,
            request: impl tonic::IntoRequest<super::CallToolRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CallToolResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.ControlService/CallTool",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.ControlService", "CallTool"));
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod control_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with ControlServiceServer.
    #[async_trait]
    pub trait ControlService: std::marker::Send + std::marker::Sync + 'static {
        /** ListApprovals returns the approvals that the caller may decide, and those of the caller's own tasks.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn list_approvals(
            &self,
            request: tonic::Request<super::ListApprovalsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListApprovalsResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchApprovals method.
        type WatchApprovalsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::WatchApprovalsResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** WatchApprovals streams approvals as they are requested and decided. It does not end by itself. WatchPosition has the rules.

 Without `after_revision`, the stream begins with a snapshot of the pending approvals. With `after_revision`, it begins with the
 approvals that changed after that revision, each in its current state, including decisions made while the reader was
 disconnected.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn watch_approvals(
            &self,
            request: tonic::Request<super::WatchApprovalsRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchApprovalsStream>,
            tonic::Status,
        >;
        /** RespondApproval decides an approval. The first decision counts; for a later one nothing changes and `already_decided` is set.
 Repeating a request with the same `request_id` is safe: it returns the first response again.

 Errors: NOT_FOUND/APPROVAL_NOT_FOUND, PERMISSION_DENIED/PERMISSION_DENIED (only an approver may decide),
 FAILED_PRECONDITION/APPROVAL_CHANGED (`etag` does not match), INVALID_ARGUMENT/INVALID_ARGUMENT (also: approving without `etag`,
 edited arguments that the policy does not allow, a `request_id` that was used for a different decision about this approval).
*/
        async fn respond_approval(
            &self,
            request: tonic::Request<super::RespondApprovalRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RespondApprovalResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the GetRunReport method.
        type GetRunReportStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::GetRunReportResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** GetRunReport returns the report of a run in pieces; concatenated they are the report.

 Errors: NOT_FOUND/TASK_NOT_FOUND (also if the task has no such run).
*/
        async fn get_run_report(
            &self,
            request: tonic::Request<super::GetRunReportRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::GetRunReportStream>,
            tonic::Status,
        >;
        /// Server streaming response type for the ExportTask method.
        type ExportTaskStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::ExportTaskResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** ExportTask returns the log of a task in another format, in pieces; concatenated they are the export.

 Errors: NOT_FOUND/TASK_NOT_FOUND, INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn export_task(
            &self,
            request: tonic::Request<super::ExportTaskRequest>,
        ) -> std::result::Result<tonic::Response<Self::ExportTaskStream>, tonic::Status>;
        /** DescribeState returns what an agent has stored about the caller's sessions and their threads. An unknown session is described as
 empty.

 A response has at most 1 MiB of content. Content that does not fit is left out, and its size is in `omitted_bytes`.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, PERMISSION_DENIED/ACTION_DENIED.
*/
        async fn describe_state(
            &self,
            request: tonic::Request<super::DescribeStateRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DescribeStateResponse>,
            tonic::Status,
        >;
        /** ResetState deletes the stored state of one session with its threads, or of all sessions of the caller.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
*/
        async fn reset_state(
            &self,
            request: tonic::Request<super::ResetStateRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResetStateResponse>,
            tonic::Status,
        >;
        /** CompactState shortens the stored conversation of a session, without those of its other threads.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, PERMISSION_DENIED/ACTION_DENIED.
*/
        async fn compact_state(
            &self,
            request: tonic::Request<super::CompactStateRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CompactStateResponse>,
            tonic::Status,
        >;
        /** ListTools returns the agent's tools, ordered by name.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn list_tools(
            &self,
            request: tonic::Request<super::ListToolsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListToolsResponse>,
            tonic::Status,
        >;
        /** CallTool runs one tool as a task of its own, under the same policy as any other tool call, and waits for its end.

 The failure of a tool that ran is not an error of the call: the failure is in the output. The task does not end with the call: a
 deadline limits only the wait. A caller that set `task_id` can then get, watch and cancel the task.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, INVALID_ARGUMENT/TOOL_REJECTED, ALREADY_EXISTS/TASK_ALREADY_EXISTS,
 PERMISSION_DENIED/ACTION_DENIED, FAILED_PRECONDITION/APPROVAL_DENIED, FAILED_PRECONDITION/APPROVAL_REQUIRED,
 FAILED_PRECONDITION/BUDGET_EXCEEDED, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED.
*/
        async fn call_tool(
            &self,
            request: tonic::Request<super::CallToolRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CallToolResponse>,
            tonic::Status,
        >;
    }
    /** ControlService controls an agent while it works. Its calls are never queued behind runs.

 Size limits and errors are those of AgentService. A method that an agent does not support fails with UNIMPLEMENTED/UNIMPLEMENTED.
*/
    #[derive(Debug)]
    pub struct ControlServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> ControlServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for ControlServiceServer<T>
    where
        T: ControlService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/plgrpc.v1.ControlService/ListApprovals" => {
                    #[allow(non_camel_case_types)]
                    struct ListApprovalsSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::ListApprovalsRequest>
                    for ListApprovalsSvc<T> {
                        type Response = super::ListApprovalsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListApprovalsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::list_approvals(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListApprovalsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/WatchApprovals" => {
                    #[allow(non_camel_case_types)]
                    struct WatchApprovalsSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::ServerStreamingService<super::WatchApprovalsRequest>
                    for WatchApprovalsSvc<T> {
                        type Response = super::WatchApprovalsResponse;
                        type ResponseStream = T::WatchApprovalsStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::WatchApprovalsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::watch_approvals(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = WatchApprovalsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/RespondApproval" => {
                    #[allow(non_camel_case_types)]
                    struct RespondApprovalSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::RespondApprovalRequest>
                    for RespondApprovalSvc<T> {
                        type Response = super::RespondApprovalResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RespondApprovalRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::respond_approval(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RespondApprovalSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/GetRunReport" => {
                    #[allow(non_camel_case_types)]
                    struct GetRunReportSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::ServerStreamingService<super::GetRunReportRequest>
                    for GetRunReportSvc<T> {
                        type Response = super::GetRunReportResponse;
                        type ResponseStream = T::GetRunReportStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetRunReportRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::get_run_report(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetRunReportSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/ExportTask" => {
                    #[allow(non_camel_case_types)]
                    struct ExportTaskSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::ServerStreamingService<super::ExportTaskRequest>
                    for ExportTaskSvc<T> {
                        type Response = super::ExportTaskResponse;
                        type ResponseStream = T::ExportTaskStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ExportTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::export_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ExportTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/DescribeState" => {
                    #[allow(non_camel_case_types)]
                    struct DescribeStateSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::DescribeStateRequest>
                    for DescribeStateSvc<T> {
                        type Response = super::DescribeStateResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::DescribeStateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::describe_state(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DescribeStateSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/ResetState" => {
                    #[allow(non_camel_case_types)]
                    struct ResetStateSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::ResetStateRequest>
                    for ResetStateSvc<T> {
                        type Response = super::ResetStateResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ResetStateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::reset_state(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ResetStateSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/CompactState" => {
                    #[allow(non_camel_case_types)]
                    struct CompactStateSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::CompactStateRequest>
                    for CompactStateSvc<T> {
                        type Response = super::CompactStateResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CompactStateRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::compact_state(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CompactStateSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/ListTools" => {
                    #[allow(non_camel_case_types)]
                    struct ListToolsSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::ListToolsRequest>
                    for ListToolsSvc<T> {
                        type Response = super::ListToolsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListToolsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::list_tools(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListToolsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.ControlService/CallTool" => {
                    #[allow(non_camel_case_types)]
                    struct CallToolSvc<T: ControlService>(pub Arc<T>);
                    impl<
                        T: ControlService,
                    > tonic::server::UnaryService<super::CallToolRequest>
                    for CallToolSvc<T> {
                        type Response = super::CallToolResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CallToolRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as ControlService>::call_tool(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CallToolSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for ControlServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "plgrpc.v1.ControlService";
    impl<T> tonic::server::NamedService for ControlServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod registry_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /** RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.

 Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
 heartbeats report is not a change: it has no revision and is not sent to watchers.
 Errors as in AgentService.
*/
    #[derive(Debug, Clone)]
    pub struct RegistryServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl RegistryServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> RegistryServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> RegistryServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            RegistryServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /** RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
*/
        pub async fn register_agent(
            &mut self,
            request: impl tonic::IntoRequest<super::RegisterAgentRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterAgentResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.RegistryService/RegisterAgent",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.RegistryService", "RegisterAgent"));
            self.inner.unary(req, path, codec).await
        }
        /** RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
 registry.

 Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn renew_lease(
            &mut self,
            request: impl tonic::IntoRequest<super::RenewLeaseRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RenewLeaseResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.RegistryService/RenewLease",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.RegistryService", "RenewLease"));
            self.inner.unary(req, path, codec).await
        }
        /** DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
*/
        pub async fn deregister_agent(
            &mut self,
            request: impl tonic::IntoRequest<super::DeregisterAgentRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeregisterAgentResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.RegistryService/DeregisterAgent",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.RegistryService", "DeregisterAgent"));
            self.inner.unary(req, path, codec).await
        }
        /** GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
 there is one, and of these the most recently registered.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
*/
        pub async fn get_agent(
            &mut self,
            request: impl tonic::IntoRequest<super::GetAgentRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetAgentResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.RegistryService/GetAgent",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.RegistryService", "GetAgent"));
            self.inner.unary(req, path, codec).await
        }
        /** ListAgents returns the agents that match a filter, sorted by name and URL.

 A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
 have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn list_agents(
            &mut self,
            request: impl tonic::IntoRequest<super::ListAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListAgentsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.RegistryService/ListAgents",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.RegistryService", "ListAgents"));
            self.inner.unary(req, path, codec).await
        }
        /** WatchAgents streams the changes after a revision, then new changes as they happen. WatchPosition has the rules.

 Without a revision, or if the registry no longer has it, the stream begins with a snapshot of all matching agents.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn watch_agents(
            &mut self,
            request: impl tonic::IntoRequest<super::WatchAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::WatchAgentsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.RegistryService/WatchAgents",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.RegistryService", "WatchAgents"));
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod registry_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with RegistryServiceServer.
    #[async_trait]
    pub trait RegistryService: std::marker::Send + std::marker::Sync + 'static {
        /** RegisterAgent adds or replaces the card under the URL of its first interface and grants a lease. The state is then UP.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/AGENT_CONFLICT.
*/
        async fn register_agent(
            &self,
            request: tonic::Request<super::RegisterAgentRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RegisterAgentResponse>,
            tonic::Status,
        >;
        /** RenewLease is the heartbeat of an agent: it renews the lease and reports state and load. Only a new state is a change of the
 registry.

 Errors: NOT_FOUND/LEASE_NOT_FOUND: register again. INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn renew_lease(
            &self,
            request: tonic::Request<super::RenewLeaseRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RenewLeaseResponse>,
            tonic::Status,
        >;
        /** DeregisterAgent removes a registration. Removing an unknown lease changes nothing.
*/
        async fn deregister_agent(
            &self,
            request: tonic::Request<super::DeregisterAgentRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeregisterAgentResponse>,
            tonic::Status,
        >;
        /** GetAgent returns the agent with a name or URL. Of several instances with the same name it returns one that is not draining, if
 there is one, and of these the most recently registered.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/AGENT_NOT_FOUND, FAILED_PRECONDITION/AGENT_AMBIGUOUS.
*/
        async fn get_agent(
            &self,
            request: tonic::Request<super::GetAgentRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetAgentResponse>,
            tonic::Status,
        >;
        /** ListAgents returns the agents that match a filter, sorted by name and URL.

 A page ends with the agent whose card brings it to 1 MiB or more, even if `page_size` allows further agents. So the cards of a page
 have less than 1 MiB and, on top of that, its last card, which is at most 1 MiB: less than 2 MiB in all.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn list_agents(
            &self,
            request: tonic::Request<super::ListAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListAgentsResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the WatchAgents method.
        type WatchAgentsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::WatchAgentsResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** WatchAgents streams the changes after a revision, then new changes as they happen. WatchPosition has the rules.

 Without a revision, or if the registry no longer has it, the stream begins with a snapshot of all matching agents.
 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn watch_agents(
            &self,
            request: tonic::Request<super::WatchAgentsRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::WatchAgentsStream>,
            tonic::Status,
        >;
    }
    /** RegistryService keeps agent cards under leases. A registration whose lease is not renewed is removed.

 Every change has a revision, greater than the one before. A registration belongs to the principal that made it. The load that
 heartbeats report is not a change: it has no revision and is not sent to watchers.
 Errors as in AgentService.
*/
    #[derive(Debug)]
    pub struct RegistryServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> RegistryServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for RegistryServiceServer<T>
    where
        T: RegistryService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/plgrpc.v1.RegistryService/RegisterAgent" => {
                    #[allow(non_camel_case_types)]
                    struct RegisterAgentSvc<T: RegistryService>(pub Arc<T>);
                    impl<
                        T: RegistryService,
                    > tonic::server::UnaryService<super::RegisterAgentRequest>
                    for RegisterAgentSvc<T> {
                        type Response = super::RegisterAgentResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RegisterAgentRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RegistryService>::register_agent(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RegisterAgentSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.RegistryService/RenewLease" => {
                    #[allow(non_camel_case_types)]
                    struct RenewLeaseSvc<T: RegistryService>(pub Arc<T>);
                    impl<
                        T: RegistryService,
                    > tonic::server::UnaryService<super::RenewLeaseRequest>
                    for RenewLeaseSvc<T> {
                        type Response = super::RenewLeaseResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RenewLeaseRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RegistryService>::renew_lease(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RenewLeaseSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.RegistryService/DeregisterAgent" => {
                    #[allow(non_camel_case_types)]
                    struct DeregisterAgentSvc<T: RegistryService>(pub Arc<T>);
                    impl<
                        T: RegistryService,
                    > tonic::server::UnaryService<super::DeregisterAgentRequest>
                    for DeregisterAgentSvc<T> {
                        type Response = super::DeregisterAgentResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::DeregisterAgentRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RegistryService>::deregister_agent(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DeregisterAgentSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.RegistryService/GetAgent" => {
                    #[allow(non_camel_case_types)]
                    struct GetAgentSvc<T: RegistryService>(pub Arc<T>);
                    impl<
                        T: RegistryService,
                    > tonic::server::UnaryService<super::GetAgentRequest>
                    for GetAgentSvc<T> {
                        type Response = super::GetAgentResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetAgentRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RegistryService>::get_agent(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetAgentSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.RegistryService/ListAgents" => {
                    #[allow(non_camel_case_types)]
                    struct ListAgentsSvc<T: RegistryService>(pub Arc<T>);
                    impl<
                        T: RegistryService,
                    > tonic::server::UnaryService<super::ListAgentsRequest>
                    for ListAgentsSvc<T> {
                        type Response = super::ListAgentsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListAgentsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RegistryService>::list_agents(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListAgentsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.RegistryService/WatchAgents" => {
                    #[allow(non_camel_case_types)]
                    struct WatchAgentsSvc<T: RegistryService>(pub Arc<T>);
                    impl<
                        T: RegistryService,
                    > tonic::server::ServerStreamingService<super::WatchAgentsRequest>
                    for WatchAgentsSvc<T> {
                        type Response = super::WatchAgentsResponse;
                        type ResponseStream = T::WatchAgentsStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::WatchAgentsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as RegistryService>::watch_agents(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = WatchAgentsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for RegistryServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "plgrpc.v1.RegistryService";
    impl<T> tonic::server::NamedService for RegistryServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod session_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /** SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
 chat front ends.

 A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
 `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
 Size limits and errors are those of AgentService.
*/
    #[derive(Debug, Clone)]
    pub struct SessionServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl SessionServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> SessionServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> SessionServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            SessionServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /** CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn create_session(
            &mut self,
            request: impl tonic::IntoRequest<super::CreateSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/CreateSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "CreateSession"));
            self.inner.unary(req, path, codec).await
        }
        /** UpdateSession changes title, metadata or `archived`.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
*/
        pub async fn update_session(
            &mut self,
            request: impl tonic::IntoRequest<super::UpdateSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdateSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/UpdateSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "UpdateSession"));
            self.inner.unary(req, path, codec).await
        }
        /** GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
*/
        pub async fn get_session(
            &mut self,
            request: impl tonic::IntoRequest<super::GetSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/GetSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "GetSession"));
            self.inner.unary(req, path, codec).await
        }
        /** ListSessions returns the caller's sessions, most recently changed first.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn list_sessions(
            &mut self,
            request: impl tonic::IntoRequest<super::ListSessionsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListSessionsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/ListSessions",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "ListSessions"));
            self.inner.unary(req, path, codec).await
        }
        /** DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
 for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
 FAILED_PRECONDITION/THREAD_BUSY and can be repeated.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
*/
        pub async fn delete_session(
            &mut self,
            request: impl tonic::IntoRequest<super::DeleteSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteSessionResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/DeleteSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "DeleteSession"));
            self.inner.unary(req, path, codec).await
        }
        /** StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
 up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
 threads.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
 NOT_FOUND/TURN_NOT_FOUND.
*/
        pub async fn start_thread(
            &mut self,
            request: impl tonic::IntoRequest<super::StartThreadRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StartThreadResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/StartThread",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "StartThread"));
            self.inner.unary(req, path, codec).await
        }
        /** SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.

 If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
 the first call; its other fields are ignored.
 Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
*/
        pub async fn submit_turn(
            &mut self,
            request: impl tonic::IntoRequest<super::SubmitTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SubmitTurnResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/SubmitTurn",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "SubmitTurn"));
            self.inner.unary(req, path, codec).await
        }
        /** StreamTurn streams the events of a turn as StreamTask does, also of a turn that has not started. It ends when the turn has
 ended.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
*/
        pub async fn stream_turn(
            &mut self,
            request: impl tonic::IntoRequest<super::StreamTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::StreamTurnResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/StreamTurn",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "StreamTurn"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** UpdateQueuedTurn replaces the input of a queued turn.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 FAILED_PRECONDITION/TURN_NOT_QUEUED.
*/
        pub async fn update_queued_turn(
            &mut self,
            request: impl tonic::IntoRequest<super::UpdateQueuedTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdateQueuedTurnResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/UpdateQueuedTurn",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "UpdateQueuedTurn"));
            self.inner.unary(req, path, codec).await
        }
        /** RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
 Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
*/
        pub async fn rollback_thread(
            &mut self,
            request: impl tonic::IntoRequest<super::RollbackThreadRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RollbackThreadResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/RollbackThread",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "RollbackThread"));
            self.inner.unary(req, path, codec).await
        }
        /** ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
 itself after a restart.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
*/
        pub async fn resume_thread(
            &mut self,
            request: impl tonic::IntoRequest<super::ResumeThreadRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeThreadResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/ResumeThread",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "ResumeThread"));
            self.inner.unary(req, path, codec).await
        }
        /** InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
 that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
 is stopped.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
*/
        pub async fn interrupt_turn(
            &mut self,
            request: impl tonic::IntoRequest<super::InterruptTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::InterruptTurnResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/InterruptTurn",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "InterruptTurn"));
            self.inner.unary(req, path, codec).await
        }
        /** PromoteQueuedTurn puts a queued turn at the front of its thread's queue.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 FAILED_PRECONDITION/TURN_NOT_QUEUED.
*/
        pub async fn promote_queued_turn(
            &mut self,
            request: impl tonic::IntoRequest<super::PromoteQueuedTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PromoteQueuedTurnResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/PromoteQueuedTurn",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SessionService", "PromoteQueuedTurn"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** RemoveQueuedTurn removes a turn from the queue: its task is canceled.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 FAILED_PRECONDITION/TURN_NOT_QUEUED.
*/
        pub async fn remove_queued_turn(
            &mut self,
            request: impl tonic::IntoRequest<super::RemoveQueuedTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RemoveQueuedTurnResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/RemoveQueuedTurn",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "RemoveQueuedTurn"));
            self.inner.unary(req, path, codec).await
        }
        /** SubscribeSession streams the events of a session and of all its tasks after a position, in the order of their commits, without
 gaps or repetitions. It does not end by itself.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
*/
        pub async fn subscribe_session(
            &mut self,
            request: impl tonic::IntoRequest<super::SubscribeSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::SubscribeSessionResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/SubscribeSession",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SessionService", "SubscribeSession"));
            self.inner.server_streaming(req, path, codec).await
        }
        /** StreamRuntimeEvents streams the same facts as events of the Agent Runtime contract.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
*/
        pub async fn stream_runtime_events(
            &mut self,
            request: impl tonic::IntoRequest<super::StreamRuntimeEventsRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::StreamRuntimeEventsResponse>>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SessionService/StreamRuntimeEvents",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SessionService", "StreamRuntimeEvents"),
                );
            self.inner.server_streaming(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod session_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with SessionServiceServer.
    #[async_trait]
    pub trait SessionService: std::marker::Send + std::marker::Sync + 'static {
        /** CreateSession creates a session. Repeating the call with the same `session_id` returns the existing session unchanged.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn create_session(
            &self,
            request: tonic::Request<super::CreateSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateSessionResponse>,
            tonic::Status,
        >;
        /** UpdateSession changes title, metadata or `archived`.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
*/
        async fn update_session(
            &self,
            request: tonic::Request<super::UpdateSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdateSessionResponse>,
            tonic::Status,
        >;
        /** GetSession returns a session and its newest turns. Its cost does not grow with the number of turns.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
*/
        async fn get_session(
            &self,
            request: tonic::Request<super::GetSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetSessionResponse>,
            tonic::Status,
        >;
        /** ListSessions returns the caller's sessions, most recently changed first.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn list_sessions(
            &self,
            request: tonic::Request<super::ListSessionsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListSessionsResponse>,
            tonic::Status,
        >;
        /** DeleteSession deletes a session with its threads, turns and tasks, the logs of these tasks, and the stored state of the agent
 for the session. Open turns are canceled first. If a run does not stop in time, the call fails with
 FAILED_PRECONDITION/THREAD_BUSY and can be repeated.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, FAILED_PRECONDITION/THREAD_BUSY.
*/
        async fn delete_session(
            &self,
            request: tonic::Request<super::DeleteSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<super::DeleteSessionResponse>,
            tonic::Status,
        >;
        /** StartThread starts a thread in a session, which is created if necessary. Its conversation is empty, or that of another thread
 up to a turn. Repeating the call with the same `thread_id` returns the existing thread unchanged. A session has at most 1,000
 threads.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, RESOURCE_EXHAUSTED/RESOURCE_EXHAUSTED, NOT_FOUND/THREAD_NOT_FOUND,
 NOT_FOUND/TURN_NOT_FOUND.
*/
        async fn start_thread(
            &self,
            request: tonic::Request<super::StartThreadRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StartThreadResponse>,
            tonic::Status,
        >;
        /** SubmitTurn accepts an input and responds when it is in the log, before any work begins. The session is created if necessary.

 If the last task of the thread waits for input, the turn continues it. A repetition with the same `turn_id` returns the turn of
 the first call; its other fields are ignored.
 Errors: those of SendTask, FAILED_PRECONDITION/THREAD_BUSY, NOT_FOUND/THREAD_NOT_FOUND.
*/
        async fn submit_turn(
            &self,
            request: tonic::Request<super::SubmitTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::SubmitTurnResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the StreamTurn method.
        type StreamTurnStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<super::StreamTurnResponse, tonic::Status>,
            >
            + std::marker::Send
            + 'static;
        /** StreamTurn streams the events of a turn as StreamTask does, also of a turn that has not started. It ends when the turn has
 ended.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
*/
        async fn stream_turn(
            &self,
            request: tonic::Request<super::StreamTurnRequest>,
        ) -> std::result::Result<tonic::Response<Self::StreamTurnStream>, tonic::Status>;
        /** UpdateQueuedTurn replaces the input of a queued turn.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 FAILED_PRECONDITION/TURN_NOT_QUEUED.
*/
        async fn update_queued_turn(
            &self,
            request: tonic::Request<super::UpdateQueuedTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdateQueuedTurnResponse>,
            tonic::Status,
        >;
        /** RollbackThread takes a turn and all later ones out of the conversation of a thread. Active turns among them are canceled.
 Nothing is deleted: Turn.rolled_back marks them. Queued turns stay in the queue. Repeating the call changes nothing.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
*/
        async fn rollback_thread(
            &self,
            request: tonic::Request<super::RollbackThreadRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RollbackThreadResponse>,
            tonic::Status,
        >;
        /** ResumeThread ends the pause of the active turns of a thread, and returns what the thread still waits for. A thread continues by
 itself after a restart.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
*/
        async fn resume_thread(
            &self,
            request: tonic::Request<super::ResumeThreadRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeThreadResponse>,
            tonic::Status,
        >;
        /** InterruptTurn cancels the active turns of a thread and its task that waits for input, or one turn. The response has the turns
 that were open, after the call; it is empty if there was nothing to interrupt. The cancellation is in the logs before the work
 is stopped.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND.
*/
        async fn interrupt_turn(
            &self,
            request: tonic::Request<super::InterruptTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::InterruptTurnResponse>,
            tonic::Status,
        >;
        /** PromoteQueuedTurn puts a queued turn at the front of its thread's queue.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 FAILED_PRECONDITION/TURN_NOT_QUEUED.
*/
        async fn promote_queued_turn(
            &self,
            request: tonic::Request<super::PromoteQueuedTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PromoteQueuedTurnResponse>,
            tonic::Status,
        >;
        /** RemoveQueuedTurn removes a turn from the queue: its task is canceled.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/TURN_NOT_FOUND,
 FAILED_PRECONDITION/TURN_NOT_QUEUED.
*/
        async fn remove_queued_turn(
            &self,
            request: tonic::Request<super::RemoveQueuedTurnRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RemoveQueuedTurnResponse>,
            tonic::Status,
        >;
        /// Server streaming response type for the SubscribeSession method.
        type SubscribeSessionStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::SubscribeSessionResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /** SubscribeSession streams the events of a session and of all its tasks after a position, in the order of their commits, without
 gaps or repetitions. It does not end by itself.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
*/
        async fn subscribe_session(
            &self,
            request: tonic::Request<super::SubscribeSessionRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::SubscribeSessionStream>,
            tonic::Status,
        >;
        /// Server streaming response type for the StreamRuntimeEvents method.
        type StreamRuntimeEventsStream: tonic::codegen::tokio_stream::Stream<
                Item = std::result::Result<
                    super::StreamRuntimeEventsResponse,
                    tonic::Status,
                >,
            >
            + std::marker::Send
            + 'static;
        /** StreamRuntimeEvents streams the same facts as events of the Agent Runtime contract.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, OUT_OF_RANGE/SEQUENCE_OUT_OF_RANGE.
*/
        async fn stream_runtime_events(
            &self,
            request: tonic::Request<super::StreamRuntimeEventsRequest>,
        ) -> std::result::Result<
            tonic::Response<Self::StreamRuntimeEventsStream>,
            tonic::Status,
        >;
    }
    /** SessionService keeps the inputs of a conversation in order and streams everything that happens in it. It is made for hosts and
 chat front ends.

 A session belongs to the principal that created it; for every other principal it does not exist. A task that is sent with a
 `session_id`, or over A2A with a `contextId`, belongs to the thread `default` of that session, which is created if necessary.
 Size limits and errors are those of AgentService.
*/
    #[derive(Debug)]
    pub struct SessionServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> SessionServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for SessionServiceServer<T>
    where
        T: SessionService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/plgrpc.v1.SessionService/CreateSession" => {
                    #[allow(non_camel_case_types)]
                    struct CreateSessionSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::CreateSessionRequest>
                    for CreateSessionSvc<T> {
                        type Response = super::CreateSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CreateSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::create_session(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CreateSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/UpdateSession" => {
                    #[allow(non_camel_case_types)]
                    struct UpdateSessionSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::UpdateSessionRequest>
                    for UpdateSessionSvc<T> {
                        type Response = super::UpdateSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::UpdateSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::update_session(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = UpdateSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/GetSession" => {
                    #[allow(non_camel_case_types)]
                    struct GetSessionSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::GetSessionRequest>
                    for GetSessionSvc<T> {
                        type Response = super::GetSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::get_session(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/ListSessions" => {
                    #[allow(non_camel_case_types)]
                    struct ListSessionsSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::ListSessionsRequest>
                    for ListSessionsSvc<T> {
                        type Response = super::ListSessionsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListSessionsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::list_sessions(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListSessionsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/DeleteSession" => {
                    #[allow(non_camel_case_types)]
                    struct DeleteSessionSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::DeleteSessionRequest>
                    for DeleteSessionSvc<T> {
                        type Response = super::DeleteSessionResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::DeleteSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::delete_session(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = DeleteSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/StartThread" => {
                    #[allow(non_camel_case_types)]
                    struct StartThreadSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::StartThreadRequest>
                    for StartThreadSvc<T> {
                        type Response = super::StartThreadResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StartThreadRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::start_thread(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = StartThreadSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/SubmitTurn" => {
                    #[allow(non_camel_case_types)]
                    struct SubmitTurnSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::SubmitTurnRequest>
                    for SubmitTurnSvc<T> {
                        type Response = super::SubmitTurnResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::SubmitTurnRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::submit_turn(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SubmitTurnSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/StreamTurn" => {
                    #[allow(non_camel_case_types)]
                    struct StreamTurnSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::ServerStreamingService<super::StreamTurnRequest>
                    for StreamTurnSvc<T> {
                        type Response = super::StreamTurnResponse;
                        type ResponseStream = T::StreamTurnStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StreamTurnRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::stream_turn(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = StreamTurnSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/UpdateQueuedTurn" => {
                    #[allow(non_camel_case_types)]
                    struct UpdateQueuedTurnSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::UpdateQueuedTurnRequest>
                    for UpdateQueuedTurnSvc<T> {
                        type Response = super::UpdateQueuedTurnResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::UpdateQueuedTurnRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::update_queued_turn(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = UpdateQueuedTurnSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/RollbackThread" => {
                    #[allow(non_camel_case_types)]
                    struct RollbackThreadSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::RollbackThreadRequest>
                    for RollbackThreadSvc<T> {
                        type Response = super::RollbackThreadResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RollbackThreadRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::rollback_thread(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RollbackThreadSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/ResumeThread" => {
                    #[allow(non_camel_case_types)]
                    struct ResumeThreadSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::ResumeThreadRequest>
                    for ResumeThreadSvc<T> {
                        type Response = super::ResumeThreadResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ResumeThreadRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::resume_thread(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ResumeThreadSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/InterruptTurn" => {
                    #[allow(non_camel_case_types)]
                    struct InterruptTurnSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::InterruptTurnRequest>
                    for InterruptTurnSvc<T> {
                        type Response = super::InterruptTurnResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::InterruptTurnRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::interrupt_turn(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = InterruptTurnSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/PromoteQueuedTurn" => {
                    #[allow(non_camel_case_types)]
                    struct PromoteQueuedTurnSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::PromoteQueuedTurnRequest>
                    for PromoteQueuedTurnSvc<T> {
                        type Response = super::PromoteQueuedTurnResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::PromoteQueuedTurnRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::promote_queued_turn(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PromoteQueuedTurnSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/RemoveQueuedTurn" => {
                    #[allow(non_camel_case_types)]
                    struct RemoveQueuedTurnSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::UnaryService<super::RemoveQueuedTurnRequest>
                    for RemoveQueuedTurnSvc<T> {
                        type Response = super::RemoveQueuedTurnResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RemoveQueuedTurnRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::remove_queued_turn(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RemoveQueuedTurnSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/SubscribeSession" => {
                    #[allow(non_camel_case_types)]
                    struct SubscribeSessionSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::ServerStreamingService<
                        super::SubscribeSessionRequest,
                    > for SubscribeSessionSvc<T> {
                        type Response = super::SubscribeSessionResponse;
                        type ResponseStream = T::SubscribeSessionStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::SubscribeSessionRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::subscribe_session(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = SubscribeSessionSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SessionService/StreamRuntimeEvents" => {
                    #[allow(non_camel_case_types)]
                    struct StreamRuntimeEventsSvc<T: SessionService>(pub Arc<T>);
                    impl<
                        T: SessionService,
                    > tonic::server::ServerStreamingService<
                        super::StreamRuntimeEventsRequest,
                    > for StreamRuntimeEventsSvc<T> {
                        type Response = super::StreamRuntimeEventsResponse;
                        type ResponseStream = T::StreamRuntimeEventsStream;
                        type Future = BoxFuture<
                            tonic::Response<Self::ResponseStream>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StreamRuntimeEventsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SessionService>::stream_runtime_events(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = StreamRuntimeEventsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.server_streaming(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for SessionServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "plgrpc.v1.SessionService";
    impl<T> tonic::server::NamedService for SessionServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod snapshot_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /** SnapshotService returns read models. The cost of a call does not grow with the age of a session.

 A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
 and errors are those of AgentService. TaskControlService has the snapshots of tasks.
*/
    #[derive(Debug, Clone)]
    pub struct SnapshotServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl SnapshotServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> SnapshotServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> SnapshotServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            SnapshotServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /** GetSessionSnapshot returns a session with its threads.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
*/
        pub async fn get_session_snapshot(
            &mut self,
            request: impl tonic::IntoRequest<super::GetSessionSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetSessionSnapshotResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetSessionSnapshot",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SnapshotService", "GetSessionSnapshot"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** GetThreadSnapshot returns one thread.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
*/
        pub async fn get_thread_snapshot(
            &mut self,
            request: impl tonic::IntoRequest<super::GetThreadSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetThreadSnapshotResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetThreadSnapshot",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SnapshotService", "GetThreadSnapshot"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** GetQueueSnapshot returns the queues of a session, or of one thread.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
*/
        pub async fn get_queue_snapshot(
            &mut self,
            request: impl tonic::IntoRequest<super::GetQueueSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetQueueSnapshotResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetQueueSnapshot",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SnapshotService", "GetQueueSnapshot"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** GetToolInventory returns the tools that the caller can use.
*/
        pub async fn get_tool_inventory(
            &mut self,
            request: impl tonic::IntoRequest<super::GetToolInventoryRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetToolInventoryResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetToolInventory",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SnapshotService", "GetToolInventory"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** GetContextBoundary returns the context of the latest model call of a task.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn get_context_boundary(
            &mut self,
            request: impl tonic::IntoRequest<super::GetContextBoundaryRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetContextBoundaryResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetContextBoundary",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.SnapshotService", "GetContextBoundary"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** GetArtifacts returns the artifacts of a task without their content.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn get_artifacts(
            &mut self,
            request: impl tonic::IntoRequest<super::GetArtifactsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetArtifactsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetArtifacts",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SnapshotService", "GetArtifacts"));
            self.inner.unary(req, path, codec).await
        }
        /** GetEvidence returns what the log of a task proves.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn get_evidence(
            &mut self,
            request: impl tonic::IntoRequest<super::GetEvidenceRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetEvidenceResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.SnapshotService/GetEvidence",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.SnapshotService", "GetEvidence"));
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod snapshot_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with SnapshotServiceServer.
    #[async_trait]
    pub trait SnapshotService: std::marker::Send + std::marker::Sync + 'static {
        /** GetSessionSnapshot returns a session with its threads.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND.
*/
        async fn get_session_snapshot(
            &self,
            request: tonic::Request<super::GetSessionSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetSessionSnapshotResponse>,
            tonic::Status,
        >;
        /** GetThreadSnapshot returns one thread.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
*/
        async fn get_thread_snapshot(
            &self,
            request: tonic::Request<super::GetThreadSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetThreadSnapshotResponse>,
            tonic::Status,
        >;
        /** GetQueueSnapshot returns the queues of a session, or of one thread.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/SESSION_NOT_FOUND, NOT_FOUND/THREAD_NOT_FOUND.
*/
        async fn get_queue_snapshot(
            &self,
            request: tonic::Request<super::GetQueueSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetQueueSnapshotResponse>,
            tonic::Status,
        >;
        /** GetToolInventory returns the tools that the caller can use.
*/
        async fn get_tool_inventory(
            &self,
            request: tonic::Request<super::GetToolInventoryRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetToolInventoryResponse>,
            tonic::Status,
        >;
        /** GetContextBoundary returns the context of the latest model call of a task.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn get_context_boundary(
            &self,
            request: tonic::Request<super::GetContextBoundaryRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetContextBoundaryResponse>,
            tonic::Status,
        >;
        /** GetArtifacts returns the artifacts of a task without their content.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn get_artifacts(
            &self,
            request: tonic::Request<super::GetArtifactsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetArtifactsResponse>,
            tonic::Status,
        >;
        /** GetEvidence returns what the log of a task proves.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn get_evidence(
            &self,
            request: tonic::Request<super::GetEvidenceRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetEvidenceResponse>,
            tonic::Status,
        >;
    }
    /** SnapshotService returns read models. The cost of a call does not grow with the age of a session.

 A snapshot of a session, thread or queue needs a session of the caller, and one of a task needs a task of the caller. Size limits
 and errors are those of AgentService. TaskControlService has the snapshots of tasks.
*/
    #[derive(Debug)]
    pub struct SnapshotServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> SnapshotServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for SnapshotServiceServer<T>
    where
        T: SnapshotService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/plgrpc.v1.SnapshotService/GetSessionSnapshot" => {
                    #[allow(non_camel_case_types)]
                    struct GetSessionSnapshotSvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetSessionSnapshotRequest>
                    for GetSessionSnapshotSvc<T> {
                        type Response = super::GetSessionSnapshotResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetSessionSnapshotRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_session_snapshot(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetSessionSnapshotSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SnapshotService/GetThreadSnapshot" => {
                    #[allow(non_camel_case_types)]
                    struct GetThreadSnapshotSvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetThreadSnapshotRequest>
                    for GetThreadSnapshotSvc<T> {
                        type Response = super::GetThreadSnapshotResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetThreadSnapshotRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_thread_snapshot(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetThreadSnapshotSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SnapshotService/GetQueueSnapshot" => {
                    #[allow(non_camel_case_types)]
                    struct GetQueueSnapshotSvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetQueueSnapshotRequest>
                    for GetQueueSnapshotSvc<T> {
                        type Response = super::GetQueueSnapshotResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetQueueSnapshotRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_queue_snapshot(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetQueueSnapshotSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SnapshotService/GetToolInventory" => {
                    #[allow(non_camel_case_types)]
                    struct GetToolInventorySvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetToolInventoryRequest>
                    for GetToolInventorySvc<T> {
                        type Response = super::GetToolInventoryResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetToolInventoryRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_tool_inventory(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetToolInventorySvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SnapshotService/GetContextBoundary" => {
                    #[allow(non_camel_case_types)]
                    struct GetContextBoundarySvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetContextBoundaryRequest>
                    for GetContextBoundarySvc<T> {
                        type Response = super::GetContextBoundaryResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetContextBoundaryRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_context_boundary(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetContextBoundarySvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SnapshotService/GetArtifacts" => {
                    #[allow(non_camel_case_types)]
                    struct GetArtifactsSvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetArtifactsRequest>
                    for GetArtifactsSvc<T> {
                        type Response = super::GetArtifactsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetArtifactsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_artifacts(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetArtifactsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.SnapshotService/GetEvidence" => {
                    #[allow(non_camel_case_types)]
                    struct GetEvidenceSvc<T: SnapshotService>(pub Arc<T>);
                    impl<
                        T: SnapshotService,
                    > tonic::server::UnaryService<super::GetEvidenceRequest>
                    for GetEvidenceSvc<T> {
                        type Response = super::GetEvidenceResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetEvidenceRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as SnapshotService>::get_evidence(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetEvidenceSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for SnapshotServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "plgrpc.v1.SnapshotService";
    impl<T> tonic::server::NamedService for SnapshotServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
/// Generated client implementations.
pub mod task_control_service_client {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    use tonic::codegen::http::Uri;
    /** TaskControlService controls single tasks. AgentService sends, reads and cancels them.

 A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
 the call. Size limits and errors are those of AgentService.
*/
    #[derive(Debug, Clone)]
    pub struct TaskControlServiceClient<T> {
        inner: tonic::client::Grpc<T>,
    }
    impl TaskControlServiceClient<tonic::transport::Channel> {
        /// Attempt to create a new client by connecting to a given endpoint.
        pub async fn connect<D>(dst: D) -> Result<Self, tonic::transport::Error>
        where
            D: TryInto<tonic::transport::Endpoint>,
            D::Error: Into<StdError>,
        {
            let conn = tonic::transport::Endpoint::new(dst)?.connect().await?;
            Ok(Self::new(conn))
        }
    }
    impl<T> TaskControlServiceClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }
        pub fn with_origin(inner: T, origin: Uri) -> Self {
            let inner = tonic::client::Grpc::with_origin(inner, origin);
            Self { inner }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> TaskControlServiceClient<InterceptedService<T, F>>
        where
            F: tonic::service::Interceptor,
            T::ResponseBody: Default,
            T: tonic::codegen::Service<
                http::Request<tonic::body::Body>,
                Response = http::Response<
                    <T as tonic::client::GrpcService<tonic::body::Body>>::ResponseBody,
                >,
            >,
            <T as tonic::codegen::Service<
                http::Request<tonic::body::Body>,
            >>::Error: Into<StdError> + std::marker::Send + std::marker::Sync,
        {
            TaskControlServiceClient::new(InterceptedService::new(inner, interceptor))
        }
        /// Compress requests with the given encoding.
        ///
        /// This requires the server to support it otherwise it might respond with an
        /// error.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.send_compressed(encoding);
            self
        }
        /// Enable decompressing responses.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.inner = self.inner.accept_compressed(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_decoding_message_size(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.inner = self.inner.max_encoding_message_size(limit);
            self
        }
        /** CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
 the same task.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
 FAILED_PRECONDITION/LINK_CYCLE.
*/
        pub async fn create_task(
            &mut self,
            request: impl tonic::IntoRequest<super::CreateTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/CreateTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "CreateTask"));
            self.inner.unary(req, path, codec).await
        }
        /** UpdateTask changes the description or the metadata of a task.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn update_task(
            &mut self,
            request: impl tonic::IntoRequest<super::UpdateTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdateTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/UpdateTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "UpdateTask"));
            self.inner.unary(req, path, codec).await
        }
        /** StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
 unchanged.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
*/
        pub async fn start_task(
            &mut self,
            request: impl tonic::IntoRequest<super::StartTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StartTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/StartTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "StartTask"));
            self.inner.unary(req, path, codec).await
        }
        /** AppendTaskProgress adds a progress report to a task that has not ended.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
*/
        pub async fn append_task_progress(
            &mut self,
            request: impl tonic::IntoRequest<super::AppendTaskProgressRequest>,
        ) -> std::result::Result<
            tonic::Response<super::AppendTaskProgressResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/AppendTaskProgress",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.TaskControlService", "AppendTaskProgress"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
 it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
 changes nothing.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
 task that waits for input).
*/
        pub async fn pause_task(
            &mut self,
            request: impl tonic::IntoRequest<super::PauseTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PauseTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/PauseTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "PauseTask"));
            self.inner.unary(req, path, codec).await
        }
        /** ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
*/
        pub async fn resume_task(
            &mut self,
            request: impl tonic::IntoRequest<super::ResumeTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/ResumeTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "ResumeTask"));
            self.inner.unary(req, path, codec).await
        }
        /** RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
*/
        pub async fn retry_task(
            &mut self,
            request: impl tonic::IntoRequest<super::RetryTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RetryTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/RetryTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "RetryTask"));
            self.inner.unary(req, path, codec).await
        }
        /** CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
 on is refused. Repeating the call changes nothing.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
 FAILED_PRECONDITION/TASK_FINISHED (with another state).
*/
        pub async fn complete_task(
            &mut self,
            request: impl tonic::IntoRequest<super::CompleteTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CompleteTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/CompleteTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "CompleteTask"));
            self.inner.unary(req, path, codec).await
        }
        /** FailTask ends a task with a failure, as CompleteTask does with success.

 Errors: as CompleteTask.
*/
        pub async fn fail_task(
            &mut self,
            request: impl tonic::IntoRequest<super::FailTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::FailTaskResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/FailTask",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "FailTask"));
            self.inner.unary(req, path, codec).await
        }
        /** LinkTasks adds a link to a task. A link that exists gets the new reason.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
 FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
*/
        pub async fn link_tasks(
            &mut self,
            request: impl tonic::IntoRequest<super::LinkTasksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::LinkTasksResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/LinkTasks",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "LinkTasks"));
            self.inner.unary(req, path, codec).await
        }
        /** UnlinkTasks removes a link. Without such a link nothing changes.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn unlink_tasks(
            &mut self,
            request: impl tonic::IntoRequest<super::UnlinkTasksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UnlinkTasksResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/UnlinkTasks",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("plgrpc.v1.TaskControlService", "UnlinkTasks"));
            self.inner.unary(req, path, codec).await
        }
        /** GetTaskSnapshot returns a task with its status in detail.

 Errors: NOT_FOUND/TASK_NOT_FOUND.
*/
        pub async fn get_task_snapshot(
            &mut self,
            request: impl tonic::IntoRequest<super::GetTaskSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetTaskSnapshotResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/GetTaskSnapshot",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.TaskControlService", "GetTaskSnapshot"),
                );
            self.inner.unary(req, path, codec).await
        }
        /** ListTaskSnapshots returns tasks with their status in detail, most recently changed first.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        pub async fn list_task_snapshots(
            &mut self,
            request: impl tonic::IntoRequest<super::ListTaskSnapshotsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListTaskSnapshotsResponse>,
            tonic::Status,
        > {
            self.inner
                .ready()
                .await
                .map_err(|e| {
                    tonic::Status::unknown(
                        format!("Service was not ready: {}", e.into()),
                    )
                })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(
                "/plgrpc.v1.TaskControlService/ListTaskSnapshots",
            );
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(
                    GrpcMethod::new("plgrpc.v1.TaskControlService", "ListTaskSnapshots"),
                );
            self.inner.unary(req, path, codec).await
        }
    }
}
/// Generated server implementations.
pub mod task_control_service_server {
    #![allow(
        unused_variables,
        dead_code,
        missing_docs,
        clippy::wildcard_imports,
        clippy::let_unit_value,
    )]
    use tonic::codegen::*;
    /// Generated trait containing gRPC methods that should be implemented for use with TaskControlServiceServer.
    #[async_trait]
    pub trait TaskControlService: std::marker::Send + std::marker::Sync + 'static {
        /** CreateTask creates a draft: a task that does not begin before StartTask. Repeating the call with the same `request_id` returns
 the same task.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, ALREADY_EXISTS/TASK_ALREADY_EXISTS, NOT_FOUND/TASK_NOT_FOUND (a link),
 FAILED_PRECONDITION/LINK_CYCLE.
*/
        async fn create_task(
            &self,
            request: tonic::Request<super::CreateTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CreateTaskResponse>,
            tonic::Status,
        >;
        /** UpdateTask changes the description or the metadata of a task.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn update_task(
            &self,
            request: tonic::Request<super::UpdateTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UpdateTaskResponse>,
            tonic::Status,
        >;
        /** StartTask starts a draft. If other tasks block it, it starts when they have ended. A task that has been started is returned
 unchanged.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
*/
        async fn start_task(
            &self,
            request: tonic::Request<super::StartTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::StartTaskResponse>,
            tonic::Status,
        >;
        /** AppendTaskProgress adds a progress report to a task that has not ended.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
*/
        async fn append_task_progress(
            &self,
            request: tonic::Request<super::AppendTaskProgressRequest>,
        ) -> std::result::Result<
            tonic::Response<super::AppendTaskProgressResponse>,
            tonic::Status,
        >;
        /** PauseTask pauses a task at the next point at which its run can wait: before an action, a model call or an emitted event. While
 it is paused, the run has no slot, and the time limits of its budget stand still. A pause survives restarts. Repeating the call
 changes nothing.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED, FAILED_PRECONDITION/INVALID_TRANSITION (a draft, or a
 task that waits for input).
*/
        async fn pause_task(
            &self,
            request: tonic::Request<super::PauseTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::PauseTaskResponse>,
            tonic::Status,
        >;
        /** ResumeTask ends the pause of a task. A task that is not paused is returned unchanged.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_FINISHED.
*/
        async fn resume_task(
            &self,
            request: tonic::Request<super::ResumeTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ResumeTaskResponse>,
            tonic::Status,
        >;
        /** RetryTask begins the work on an ended task again, with the same input. The earlier runs stay in its log.

 Errors: NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/INVALID_TRANSITION (the task has not ended).
*/
        async fn retry_task(
            &self,
            request: tonic::Request<super::RetryTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::RetryTaskResponse>,
            tonic::Status,
        >;
        /** CompleteTask ends a task with success. It is for work that is done outside of the agent: a task that a run of the agent works
 on is refused. Repeating the call changes nothing.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/TASK_ALREADY_RUNNING,
 FAILED_PRECONDITION/TASK_FINISHED (with another state).
*/
        async fn complete_task(
            &self,
            request: tonic::Request<super::CompleteTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::CompleteTaskResponse>,
            tonic::Status,
        >;
        /** FailTask ends a task with a failure, as CompleteTask does with success.

 Errors: as CompleteTask.
*/
        async fn fail_task(
            &self,
            request: tonic::Request<super::FailTaskRequest>,
        ) -> std::result::Result<
            tonic::Response<super::FailTaskResponse>,
            tonic::Status,
        >;
        /** LinkTasks adds a link to a task. A link that exists gets the new reason.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND, FAILED_PRECONDITION/LINK_CYCLE,
 FAILED_PRECONDITION/TASK_STARTED (BLOCKED_BY for a task that has started), FAILED_PRECONDITION/TASK_FINISHED.
*/
        async fn link_tasks(
            &self,
            request: tonic::Request<super::LinkTasksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::LinkTasksResponse>,
            tonic::Status,
        >;
        /** UnlinkTasks removes a link. Without such a link nothing changes.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT, NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn unlink_tasks(
            &self,
            request: tonic::Request<super::UnlinkTasksRequest>,
        ) -> std::result::Result<
            tonic::Response<super::UnlinkTasksResponse>,
            tonic::Status,
        >;
        /** GetTaskSnapshot returns a task with its status in detail.

 Errors: NOT_FOUND/TASK_NOT_FOUND.
*/
        async fn get_task_snapshot(
            &self,
            request: tonic::Request<super::GetTaskSnapshotRequest>,
        ) -> std::result::Result<
            tonic::Response<super::GetTaskSnapshotResponse>,
            tonic::Status,
        >;
        /** ListTaskSnapshots returns tasks with their status in detail, most recently changed first.

 Errors: INVALID_ARGUMENT/INVALID_ARGUMENT.
*/
        async fn list_task_snapshots(
            &self,
            request: tonic::Request<super::ListTaskSnapshotsRequest>,
        ) -> std::result::Result<
            tonic::Response<super::ListTaskSnapshotsResponse>,
            tonic::Status,
        >;
    }
    /** TaskControlService controls single tasks. AgentService sends, reads and cancels them.

 A task belongs to the principal that created it; for every other principal it does not exist. Each method returns the task after
 the call. Size limits and errors are those of AgentService.
*/
    #[derive(Debug)]
    pub struct TaskControlServiceServer<T> {
        inner: Arc<T>,
        accept_compression_encodings: EnabledCompressionEncodings,
        send_compression_encodings: EnabledCompressionEncodings,
        max_decoding_message_size: Option<usize>,
        max_encoding_message_size: Option<usize>,
    }
    impl<T> TaskControlServiceServer<T> {
        pub fn new(inner: T) -> Self {
            Self::from_arc(Arc::new(inner))
        }
        pub fn from_arc(inner: Arc<T>) -> Self {
            Self {
                inner,
                accept_compression_encodings: Default::default(),
                send_compression_encodings: Default::default(),
                max_decoding_message_size: None,
                max_encoding_message_size: None,
            }
        }
        pub fn with_interceptor<F>(
            inner: T,
            interceptor: F,
        ) -> InterceptedService<Self, F>
        where
            F: tonic::service::Interceptor,
        {
            InterceptedService::new(Self::new(inner), interceptor)
        }
        /// Enable decompressing requests with the given encoding.
        #[must_use]
        pub fn accept_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.accept_compression_encodings.enable(encoding);
            self
        }
        /// Compress responses with the given encoding, if the client supports it.
        #[must_use]
        pub fn send_compressed(mut self, encoding: CompressionEncoding) -> Self {
            self.send_compression_encodings.enable(encoding);
            self
        }
        /// Limits the maximum size of a decoded message.
        ///
        /// Default: `4MB`
        #[must_use]
        pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
            self.max_decoding_message_size = Some(limit);
            self
        }
        /// Limits the maximum size of an encoded message.
        ///
        /// Default: `usize::MAX`
        #[must_use]
        pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
            self.max_encoding_message_size = Some(limit);
            self
        }
    }
    impl<T, B> tonic::codegen::Service<http::Request<B>> for TaskControlServiceServer<T>
    where
        T: TaskControlService,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;
        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/plgrpc.v1.TaskControlService/CreateTask" => {
                    #[allow(non_camel_case_types)]
                    struct CreateTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::CreateTaskRequest>
                    for CreateTaskSvc<T> {
                        type Response = super::CreateTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CreateTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::create_task(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CreateTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/UpdateTask" => {
                    #[allow(non_camel_case_types)]
                    struct UpdateTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::UpdateTaskRequest>
                    for UpdateTaskSvc<T> {
                        type Response = super::UpdateTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::UpdateTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::update_task(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = UpdateTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/StartTask" => {
                    #[allow(non_camel_case_types)]
                    struct StartTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::StartTaskRequest>
                    for StartTaskSvc<T> {
                        type Response = super::StartTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StartTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::start_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = StartTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/AppendTaskProgress" => {
                    #[allow(non_camel_case_types)]
                    struct AppendTaskProgressSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::AppendTaskProgressRequest>
                    for AppendTaskProgressSvc<T> {
                        type Response = super::AppendTaskProgressResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::AppendTaskProgressRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::append_task_progress(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = AppendTaskProgressSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/PauseTask" => {
                    #[allow(non_camel_case_types)]
                    struct PauseTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::PauseTaskRequest>
                    for PauseTaskSvc<T> {
                        type Response = super::PauseTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::PauseTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::pause_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = PauseTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/ResumeTask" => {
                    #[allow(non_camel_case_types)]
                    struct ResumeTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::ResumeTaskRequest>
                    for ResumeTaskSvc<T> {
                        type Response = super::ResumeTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ResumeTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::resume_task(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ResumeTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/RetryTask" => {
                    #[allow(non_camel_case_types)]
                    struct RetryTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::RetryTaskRequest>
                    for RetryTaskSvc<T> {
                        type Response = super::RetryTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::RetryTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::retry_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = RetryTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/CompleteTask" => {
                    #[allow(non_camel_case_types)]
                    struct CompleteTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::CompleteTaskRequest>
                    for CompleteTaskSvc<T> {
                        type Response = super::CompleteTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::CompleteTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::complete_task(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = CompleteTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/FailTask" => {
                    #[allow(non_camel_case_types)]
                    struct FailTaskSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::FailTaskRequest>
                    for FailTaskSvc<T> {
                        type Response = super::FailTaskResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::FailTaskRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::fail_task(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = FailTaskSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/LinkTasks" => {
                    #[allow(non_camel_case_types)]
                    struct LinkTasksSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::LinkTasksRequest>
                    for LinkTasksSvc<T> {
                        type Response = super::LinkTasksResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::LinkTasksRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::link_tasks(&inner, request).await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = LinkTasksSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/UnlinkTasks" => {
                    #[allow(non_camel_case_types)]
                    struct UnlinkTasksSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::UnlinkTasksRequest>
                    for UnlinkTasksSvc<T> {
                        type Response = super::UnlinkTasksResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::UnlinkTasksRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::unlink_tasks(&inner, request)
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = UnlinkTasksSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/GetTaskSnapshot" => {
                    #[allow(non_camel_case_types)]
                    struct GetTaskSnapshotSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::GetTaskSnapshotRequest>
                    for GetTaskSnapshotSvc<T> {
                        type Response = super::GetTaskSnapshotResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::GetTaskSnapshotRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::get_task_snapshot(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = GetTaskSnapshotSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                "/plgrpc.v1.TaskControlService/ListTaskSnapshots" => {
                    #[allow(non_camel_case_types)]
                    struct ListTaskSnapshotsSvc<T: TaskControlService>(pub Arc<T>);
                    impl<
                        T: TaskControlService,
                    > tonic::server::UnaryService<super::ListTaskSnapshotsRequest>
                    for ListTaskSnapshotsSvc<T> {
                        type Response = super::ListTaskSnapshotsResponse;
                        type Future = BoxFuture<
                            tonic::Response<Self::Response>,
                            tonic::Status,
                        >;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::ListTaskSnapshotsRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            let fut = async move {
                                <T as TaskControlService>::list_task_snapshots(
                                        &inner,
                                        request,
                                    )
                                    .await
                            };
                            Box::pin(fut)
                        }
                    }
                    let accept_compression_encodings = self.accept_compression_encodings;
                    let send_compression_encodings = self.send_compression_encodings;
                    let max_decoding_message_size = self.max_decoding_message_size;
                    let max_encoding_message_size = self.max_encoding_message_size;
                    let inner = self.inner.clone();
                    let fut = async move {
                        let method = ListTaskSnapshotsSvc(inner);
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec)
                            .apply_compression_config(
                                accept_compression_encodings,
                                send_compression_encodings,
                            )
                            .apply_max_message_size_config(
                                max_decoding_message_size,
                                max_encoding_message_size,
                            );
                        let res = grpc.unary(method, req).await;
                        Ok(res)
                    };
                    Box::pin(fut)
                }
                _ => {
                    Box::pin(async move {
                        let mut response = http::Response::new(
                            tonic::body::Body::default(),
                        );
                        let headers = response.headers_mut();
                        headers
                            .insert(
                                tonic::Status::GRPC_STATUS,
                                (tonic::Code::Unimplemented as i32).into(),
                            );
                        headers
                            .insert(
                                http::header::CONTENT_TYPE,
                                tonic::metadata::GRPC_CONTENT_TYPE,
                            );
                        Ok(response)
                    })
                }
            }
        }
    }
    impl<T> Clone for TaskControlServiceServer<T> {
        fn clone(&self) -> Self {
            let inner = self.inner.clone();
            Self {
                inner,
                accept_compression_encodings: self.accept_compression_encodings,
                send_compression_encodings: self.send_compression_encodings,
                max_decoding_message_size: self.max_decoding_message_size,
                max_encoding_message_size: self.max_encoding_message_size,
            }
        }
    }
    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "plgrpc.v1.TaskControlService";
    impl<T> tonic::server::NamedService for TaskControlServiceServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
