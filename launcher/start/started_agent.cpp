#include "launcher/start/started_agent.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace ddprun::inline launch {

OwnedDescriptor take_relay_line() {
    // One that runs from a removed file has another name than people look for.
    ::prctl(PR_SET_NAME, "ddprun");
    OwnedDescriptor line(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    const OwnedDescriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (null) ::dup2(null.get(), STDIN_FILENO);
    return line;
}

bool ends_with_line(const LineLoss& loss) { return loss.is_node_0 || !loss.has_run || loss.is_elastic; }

StartedAgent::StartedAgent(OwnedDescriptor line, bool is_node_0, bool is_elastic)
    : line_(std::move(line)), loss_{.is_node_0 = is_node_0, .is_elastic = is_elastic} {}

void StartedAgent::began(AgentControls& agent) {
    agent_ = &agent;
    if (!line_) return;
    listen(
        std::make_shared<Stream>(agent.executor(), ::fcntl(line_.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)));
}

// Nothing is said to an agent; only the end of the line counts. The handler owns the stream, which ends with the agent.
void StartedAgent::listen(const std::shared_ptr<Stream>& reader) {
    reader->async_wait(Stream::wait_read, [this, reader](const boost::system::error_code& error) {
        if (error) return;
        std::array<char, 64> ignored;
        const ssize_t count = ::recv(reader->native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
        if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return listen(reader);
        if (ends_with_line(loss_)) agent_->tell(SignalSent{SIGTERM});
    });
}

// A few words once: the socket takes them whole, or nobody is there any more.
void StartedAgent::say(const std::string& words) {
    if (line_) [[maybe_unused]]
        const ssize_t ignored = ::send(line_.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void StartedAgent::workers_run(const RoundReady&) {
    if (!std::exchange(loss_.has_run, true)) say("runs\n");
}

void StartedAgent::learnt(const AgentNews& news) {
    const auto* known = std::get_if<PlaceKnown>(&news);
    if (known == nullptr || !loss_.is_node_0 || std::exchange(port_said_, true)) return;
    say(fmt::format("port {}\n", known->place.port));
}

}  // namespace ddprun::inline launch
