// ddpctl and the launcher of a detached job talk over the unix socket `control` in the job's folder. The words are pure; then
// come the two ends.
//
// One request and one reply for each connection, each a line of JSON. Requests:
//   {"version":1,"request":"status"}
//   {"version":1,"request":"signal","signal":"SIGTERM"}
// Replies:
//   {"version":1,"error":null,"ends_job":true}   the signal is on its way
//   {"version":1,"error":null,"status":{...}}    AgentStatus
//   {"version":1,"error":"..."}                  refused, and why
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/any_io_executor.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/job/agent_status.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

inline constexpr int kControlVersion = 1;
// The limits count the newline. A status has some 90 bytes for each worker of the node.
inline constexpr std::size_t kMaxControlRequest = 1024;
inline constexpr std::size_t kMaxControlReply = 4 << 20;

struct StatusRequest {
    bool operator==(const StatusRequest&) const = default;
};
struct SignalRequest {
    int signal = 0;
    bool operator==(const SignalRequest&) const = default;
};
using ControlRequest = std::variant<StatusRequest, SignalRequest>;

struct ControlReply {
    std::string error;      // empty: done
    bool ends_job = false;  // the signal does; others only reach the workers
    std::optional<AgentStatus> status;
    bool operator==(const ControlReply&) const = default;
};

// The line has a newline at its end and none inside.
std::string to_line(const ControlRequest& request);
std::string to_line(const ControlReply& reply);

// Takes the line without its newline; returns the request, or why it is none.
std::variant<ControlRequest, std::string> parse_control_request(std::string_view line);
// Returns nothing for a line that is no reply.
std::optional<ControlReply> parse_control_reply(std::string_view line);

// Writes the status as one JSON object, for programs.
std::string to_json(const AgentStatus& status);

// kControlName is the socket's in a job's folder.
inline constexpr const char* kControlName = "control";

// JobControlAddress is the address of a job's socket, good as long as the object lives. The address goes through a descriptor of the
// folder, because a path may be longer than a unix socket's address has room for.
class JobControlAddress {
  public:
    // Throws Error if the folder cannot be opened.
    explicit JobControlAddress(const std::filesystem::path& folder)
        : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        if (!folder_) fail_errno(errno, "cannot open '" + folder.string() + "'");
        address_.sun_family = AF_UNIX;
        ("/proc/self/fd/" + std::to_string(folder_.get()) + "/" + kControlName)
            .copy(address_.sun_path, kMaxPath);
    }

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
    static socklen_t size() { return sizeof(sockaddr_un); }

  private:
    static constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;

    OwnedDescriptor folder_;
    sockaddr_un address_{};
};

// Makes a unix stream socket, close-on-exec. Throws Error.
inline OwnedDescriptor make_control_socket() {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) fail_errno(errno, "cannot make a unix socket");
    return socket;
}

// --- ddpctl's end: one question to the launcher of a job; blocking, bounded

// Connecting, asking and each wait for the answer may take so long.
inline constexpr std::chrono::seconds kControlAnswerTimeout{20};

// Returns the reply of the launcher whose job has this folder. Throws Error: nobody listens (any more), no answer in
// time, or one that is none.
ControlReply ask_job(const std::filesystem::path& folder, const ControlRequest& request,
                     std::chrono::milliseconds timeout = kControlAnswerTimeout);

// --- the launcher's end, which answers processes of the same user (or root)
//
// It runs on the executor's thread beside the agent and cannot disturb it: a connection has kControlTimeout in
// all and one line of bounded length, more than kMaxControlClients wait in the kernel's queue.

inline constexpr std::size_t kMaxControlClients = 16;
inline constexpr std::chrono::seconds kControlTimeout{5};

// SignalEffect says what a signal to the launcher would do.
struct SignalEffect {
    std::string refusal;  // nothing, and why
    bool ends_job = false;
};

struct JobControlHandlers {
    std::function<AgentStatus()> status;
    std::function<SignalEffect(int)> effect_of;
    // Called when the answer is on its way, if the signal was not refused.
    std::function<void(int)> deliver;
};

// Makes a socket that listens at `folder`/control; the folder's path may be longer than a socket's address and may
// change afterwards. Throws Error.
OwnedDescriptor listen_job_control(const std::filesystem::path& folder);

// Answers until the executor's context is destroyed.
void serve_job_control(const boost::asio::any_io_executor& executor, OwnedDescriptor listener,
                       JobControlHandlers handlers, std::chrono::milliseconds timeout = kControlTimeout);

}  // namespace ddprun::inline launch
