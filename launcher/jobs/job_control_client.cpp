#include "launcher/jobs/job_control_client.hpp"

#include <sys/time.h>

#include <array>
#include <cerrno>

#include "launcher/jobs/job_control.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kReadSize = 64 * 1024;

[[noreturn]] void give_up(int error_number) {
    if (error_number == EAGAIN || error_number == EWOULDBLOCK)
        fail(Errc::timed_out, "the launcher does not answer");
    fail_errno(error_number, "cannot talk to the launcher");
}

void limit_waits(int socket, std::chrono::milliseconds timeout) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
    timeval time{};
    time.tv_sec = seconds.count();
    time.tv_usec = std::chrono::microseconds(timeout - seconds).count();
    for (int direction : {SO_SNDTIMEO, SO_RCVTIMEO}) {
        if (::setsockopt(socket, SOL_SOCKET, direction, &time, sizeof time) != 0) give_up(errno);
    }
}

}  // namespace

ControlReply ask_job(const std::filesystem::path& folder, const ControlRequest& request,
                     std::chrono::milliseconds timeout) {
    const JobControlAddress address(folder);
    const OwnedDescriptor socket = make_control_socket();
    limit_waits(socket.get(), timeout);
    if (::connect(socket.get(), address.get(), JobControlAddress::size()) != 0) give_up(errno);
    const std::string line = to_line(request);
    // A request fits into the socket's buffer as a whole.
    if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) < 0) give_up(errno);
    std::string text;
    std::array<char, kReadSize> buffer;
    while (text.empty() || text.back() != '\n') {
        const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) give_up(errno);
        if (count == 0) fail(Errc::closed, "the launcher gave no answer");
        text.append(buffer.data(), static_cast<std::size_t>(count));
        if (text.size() > kMaxControlReply) fail(Errc::limit_exceeded, "the launcher's answer is too long");
    }
    text.pop_back();
    auto reply = parse_control_reply(text);
    if (!reply) fail(Errc::protocol_violation, "the launcher's answer is not understood");
    return *reply;
}

}  // namespace ddprun::inline launch
