// listen_job_socket() makes the launcher's end of the unix socket `control` in a job's folder, by which the
// job's own user asks its launcher over HTTP (routes.hpp); serve_unix() answers there.
//
// ask_status, send_signal and StreamReader are ddpctl's end: one question, blocking, bounded but for what a
// StreamReader waits for. The socket's address goes
// through a descriptor of the folder, because a path may be longer than such an address has room for.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/view/routes.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// kControlName is the socket's name in a job's folder.
inline constexpr const char* kControlName = "control";

// Makes a socket that listens at `folder`/control, for its owner alone; the folder may have another name
// afterwards. Throws Error.
OwnedDescriptor listen_job_socket(const std::filesystem::path& folder);

// Returns a socket that is connected to the launcher of the job with this folder; each of its waits takes
// `timeout` at most. Throws Error if no launcher listens (any more).
OwnedDescriptor call_job(const std::filesystem::path& folder, std::chrono::milliseconds timeout);

// kAnswerTimeout: how long connecting, asking and each wait for the answer may take.
inline constexpr std::chrono::seconds kAnswerTimeout{20};

// Asks the launcher, as send_signal() does. Throws Error if no launcher listens (any more), if no answer
// comes in time, or if what comes is none.
JobView ask_status(const std::filesystem::path& folder, std::chrono::milliseconds timeout = kAnswerTimeout);
// Asks, and throws, as ask_status() does.
StacksAnswer ask_stacks(const std::filesystem::path& folder, const StacksTerms& terms,
                        std::chrono::milliseconds timeout = kAnswerTimeout);
SignalEffect send_signal(const std::filesystem::path& folder, int signal,
                         std::chrono::milliseconds timeout = kAnswerTimeout);

// Asks the launchers of all these jobs side by side; nothing where one gives no answer within `timeout`,
// which is the time for all of them together.
std::vector<std::optional<JobView>> ask_statuses(const std::vector<std::filesystem::path>& folders,
                                                 std::chrono::milliseconds timeout);

// StreamReader reads what a launcher tells as it comes.
class StreamReader {
  public:
    // Asks. Throws as ask_status() does.
    StreamReader(const std::filesystem::path& folder, const StreamTerms& terms);
    // Returns the next line, however long that takes; nothing when the launcher has said its last or has
    // ended, or when `interrupt`, a descriptor, can be read. Throws as ask_status() does.
    std::optional<StreamLine> next(int interrupt = -1);

  private:
    OwnedDescriptor socket_;
    std::string lines_;       // what has come and was not returned
    std::size_t looked_ = 0;  // so much of it has no end of a line
};

}  // namespace launch
}  // namespace ddprun
