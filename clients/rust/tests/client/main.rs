//! The client against agents of its own process. One program, so that the compiler makes what the tests share once.

mod calls;
mod restart;
mod scripted;
mod server;
mod sessions;
mod stubs;
mod task_control;
