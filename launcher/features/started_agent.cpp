#include "launcher/features/started_agent.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <variant>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {
namespace {

class StartedAgent final : public Feature {
  public:
    StartedAgent(OwnedDescriptor line, const LaunchOptions& options)
        : line_(std::move(line)),
          loss_{.is_node_0 = options.node_rank == 0, .is_elastic = options.elasticity.is_elastic()} {}

    void began(AgentControls& agent) override {
        agent_ = &agent;
        if (!line_) return;
        listen(std::make_shared<Stream>(agent.executor(),
                                        ::fcntl(line_.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1)));
    }
    void learnt(const AgentNews& news) override {
        const auto* known = std::get_if<PlaceKnown>(&news);
        if (known == nullptr || !loss_.is_node_0 || std::exchange(port_said_, true)) return;
        say(fmt::format("port {}\n", known->place.port));
    }
    void workers_run(const RoundReady&) override {
        if (!std::exchange(loss_.has_run, true)) say("runs\n");
    }
    void agent_leaves() override { agent_ = nullptr; }

  private:
    using Stream = boost::asio::posix::stream_descriptor;

    // Nothing is said to an agent; only the end of the line counts. The handler owns the stream, which ends
    // with the agent.
    void listen(const std::shared_ptr<Stream>& reader) {
        reader->async_wait(Stream::wait_read, [this, reader](const boost::system::error_code& error) {
            if (error || agent_ == nullptr) return;
            std::array<char, 64> ignored;
            const ssize_t count =
                ::recv(reader->native_handle(), ignored.data(), ignored.size(), MSG_DONTWAIT);
            if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) return listen(reader);
            if (ends_with_line(loss_)) agent_->tell(SignalSent{SIGTERM});
        });
    }

    // A few words once: the socket takes them whole, or nobody is there any more.
    void say(const std::string& words) {
        if (line_) [[maybe_unused]]
            const ssize_t ignored =
                ::send(line_.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }

    OwnedDescriptor line_;
    LineLoss loss_;
    bool port_said_ = false;
    AgentControls* agent_ = nullptr;
};

}  // namespace

bool ends_with_line(const LineLoss& loss) { return loss.is_node_0 || !loss.has_run || loss.is_elastic; }

std::unique_ptr<Feature> make_started_agent(const FeatureInputs& inputs) {
    const auto& options = inputs.options.features.of<StartedAgentOptions>();
    return std::make_unique<StartedAgent>(std::move(*options.line), inputs.options);
}

}  // namespace launch
}  // namespace ddprun
