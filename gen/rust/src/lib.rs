//! Messages and services of `plgrpc.v1`, made by `make gen`. Nothing is written by hand but this file.

/// Package `plgrpc.v1`: messages at the top, services in `*_client` and `*_server`.
pub mod v1 {
    // Generated from comments that are written for every language.
    #![allow(
        clippy::doc_lazy_continuation,
        clippy::large_enum_variant,
        rustdoc::all
    )]
    include!("generated/plgrpc.v1.rs");

    /// What the protos say, as a serialized `google.protobuf.FileDescriptorSet`: for reflection and for readers of fields by name.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/plgrpc.v1.binpb");
}
