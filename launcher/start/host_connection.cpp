#include "launcher/start/host_connection.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {

std::shared_ptr<const std::string> ConnectionTools::program_bytes() {
    if (!bytes_) bytes_ = std::make_shared<const std::string>(own_program_bytes());
    return bytes_;
}

HostConnection::HostConnection(const boost::asio::any_io_executor& executor, ConnectionTools& tools,
                               StartPlan plan, HostEvents events)
    : executor_(executor),
      tools_(tools),
      plan_(std::move(plan)),
      events_(std::move(events)),
      timer_(executor) {}

WorkerSpec HostConnection::spec_of_shell() {
    WorkerSpec spec;
    if (node().is_here) {
        spec.environment = tools_.environment;
        spec.argv = {own_executable(), std::string(kRelayFlag), tools_.identity};
        return spec;
    }
    spec.environment = shell_environment(plan_.rsh, tools_.environment);
    spec.argv =
        shell_words(plan_.rsh, {.target = node().target,
                                .line = bootstrap_line({tools_.file, tools_.identity, own_program_size(),
                                                        plan_.ships, plan_.launcher_owners}),
                                .gpus = node().gpus});
    return spec;
}

void HostConnection::begin() {
    state_ = State::connecting;
    ++connects_;
    handshake_ = Handshake();
    last_complaints_ = LastLines();
    shell_ = std::make_unique<PipedProcess>(
        executor_, PipedEvents{.on_output = [this](std::string_view bytes) { heard(bytes); },
                               .on_error_output = [this](std::string_view bytes) { complained(bytes); },
                               .on_word = {},
                               .on_end = [this](const ExitStatus& status) { ended(status); }});
    if (const auto wrong = shell_->start(tools_.launcher, spec_of_shell(), false))
        return fail(fmt::format("{}: {}", node().target, *wrong));
    timer_.expires_after(kHostAnswerTimeout);
    timer_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
        if (cancelled || state_ != State::connecting) return;
        trouble_ = fmt::format("no answer for {} s", kHostAnswerTimeout.count());
        shell_->signal(SIGKILL);
    }));
}

void HostConnection::heard(std::string_view bytes) {
    if (!trouble_.empty()) return;
    if (state_ == State::connecting) return shake_hands(bytes);
    take_frames(bytes);
}

void HostConnection::shake_hands(std::string_view bytes) {
    switch (handshake_.push(bytes)) {
        case Handshake::Word::none: return;
        case Handshake::Word::have: return lead();
        case Handshake::Word::need: return ship();
        case Handshake::Word::too_much:
            trouble_ = fmt::format("its shell says more than {} bytes before the relay answers: '{}'",
                                   kMaxNoise, harmless_output_line(handshake_.noise()));
            shell_->signal(SIGKILL);
    }
}

void HostConnection::ship() {
    if (!plan_.ships) {
        trouble_ = fmt::format("no ddprun of this build there ({}, or on PATH), and --no-ship", tools_.file);
        shell_->signal(SIGKILL);
        return;
    }
    shell_->write(tools_.program_bytes());
}

void HostConnection::lead() {
    state_ = State::led;
    timer_.cancel();
    shell_->write(frame_of(DownMessage(plan_)));
    for (std::string& frame : waiting_) shell_->write(std::move(frame));
    waiting_.clear();
    take_frames(handshake_.take_rest());
}

void HostConnection::take_frames(std::string_view bytes) {
    frames_.push(bytes);
    while (const auto body = frames_.next()) {
        auto message = parse_up(*body);
        if (!message || !speaks_for_itself(*message, plan_.nodes)) {
            trouble_ =
                message ? "its relay says what cannot be true" : "what its relay says cannot be understood";
            return shell_->signal(SIGKILL);
        }
        const auto* end = std::get_if<AgentEnded>(&*message);
        has_ended_ = has_ended_ || (end != nullptr && end->rank == node().rank);
        events_.on_message(std::move(*message));
    }
    if (!frames_.is_broken()) return;
    trouble_ = fmt::format("its relay sends frames of more than {} bytes", kMaxFrameUp);
    shell_->signal(SIGKILL);
}

// A remote shell's greetings and warnings are of interest only if it fails.
void HostConnection::complained(std::string_view bytes) {
    complaints_.push(bytes, [this](std::string_view block) { last_complaints_.add(block); });
}

std::string HostConnection::last_complaint() const {
    const auto lines = last_complaints_.lines(complaints_.unfinished());
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        if (!line->empty()) return *line;
    }
    return {};
}

void HostConnection::ended(const ExitStatus& status) {
    timer_.cancel();
    const RshEnd end{status, last_complaint()};
    if (state_ == State::connecting && trouble_.empty() && !is_unwanted_ && connects_ < kMaxConnects &&
        is_worth_another(end)) {
        const double chance = random_number<std::uint32_t>("the pause before a connection") * 0x1p-32;
        timer_.expires_after(pause_before_next(connects_, chance));
        timer_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
            if (!cancelled) begin();
        }));
        return;
    }
    if (is_unwanted_ || (has_ended_ && succeeded(status))) return be_over();
    if (!trouble_.empty()) return fail(fmt::format("{}: {}", node().target, trouble_));
    const std::string command = node().is_here ? "relay" : plan_.rsh.front();
    std::string text = rsh_failure_text(node().target, command, end);
    if (connects_ > 1) text += fmt::format(" ({} connections tried)", connects_);
    fail(std::move(text));
}

void HostConnection::fail(std::string text) {
    HostFailed failed{{}, std::move(text), state_ == State::led};
    for (const StartNode& one : plan_.nodes) failed.ranks.push_back(one.rank);
    events_.on_message(std::move(failed));
    be_over();
}

void HostConnection::be_over() {
    state_ = State::over;
    events_.on_over();
}

void HostConnection::send(const DownMessage& message) {
    if (state_ == State::over) return;
    const bool is_end = std::holds_alternative<EndAgents>(message);
    is_unwanted_ = is_unwanted_ || is_end;
    if (state_ == State::led) return shell_->write(frame_of(message));
    if (is_end) return kill();  // Nothing has been started there.
    waiting_.push_back(frame_of(message));
}

void HostConnection::hold(bool is_held) {
    if (shell_ && state_ == State::led) shell_->hold(is_held);
}

void HostConnection::kill() {
    is_unwanted_ = true;
    hold(false);
    if (shell_ && shell_->is_running()) return shell_->signal(SIGKILL);
    if (state_ != State::connecting && state_ != State::idle) return;
    // Between two connections.
    timer_.cancel();
    be_over();
}

}  // namespace launch
}  // namespace ddprun
