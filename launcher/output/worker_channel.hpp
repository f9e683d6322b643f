// A WorkerChannel is the way of one stream from a worker to the launcher: a pipe, or a pseudo-terminal. The
// two ends are close-on-exec and none of the numbers 0 to 2; the reading end does not block.
#pragma once

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

struct WorkerChannel {
    OwnedDescriptor reader;  // the launcher's
    OwnedDescriptor writer;  // becomes the worker's stream
};

// kLargePipeSize and kPipeSize: what a pipe is asked to hold. A worker is then not woken for every few lines
// and goes on while the launcher is busy with others. Less is fine. The kernel limits what one user's pipes
// hold together (64 MiB usually), and beyond that new pipes of the user are tiny. Hence only the first
// kLargePipes of a round are large.
inline constexpr int kLargePipeSize = 1024 * 1024;
inline constexpr int kPipeSize = 256 * 1024;
inline constexpr int kLargePipes = 16;

// Makes a pipe. Throws system_error when there are no descriptors left.
WorkerChannel make_pipe_channel(int size);

// Makes a pseudo-terminal of the size of the terminal `like`. The pseudo-terminal passes bytes on as they
// are, since the terminal itself treats them. Makes a pipe of `size` where there are no pseudo-terminals.
WorkerChannel make_terminal_channel(int like, int size);

// Makes a pseudo-terminal of the size and with the modes of the terminal `like`, for a program that a person
// works with. Throws system_error where there are none.
WorkerChannel make_interactive_channel(int like);

// Gives the worker's terminal the present size of the terminal `like`.
void copy_window_size(int like, int reader);

}  // namespace launch
}  // namespace ddprun
