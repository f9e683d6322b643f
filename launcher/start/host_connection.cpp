#include "launcher/start/host_connection.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kPipeReadAtOnce = 64 * 1024;

// Makes a pair whose ends are close-on-exec, the child's above the standard streams, ours not blocking; false
// with errno.
bool make_ends(bool is_socket, bool child_reads, OwnedDescriptor& ours, OwnedDescriptor& childs) {
    int ends[2];
    const int made =
        is_socket ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : ::pipe2(ends, O_CLOEXEC);
    if (made != 0) return false;
    ours.reset(ends[child_reads ? 1 : 0]);
    childs.reset(ends[child_reads ? 0 : 1]);
    childs = above_standard_streams(std::move(childs));
    return childs && ::fcntl(ours.get(), F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

PipedProcess::PipedProcess(const boost::asio::any_io_executor& executor, PipedEvents events)
    : input_(executor),
      output_(executor),
      error_output_(executor),
      drain_timer_(executor),
      events_(std::move(events)) {}

// basic_process kills and reaps what is left.
PipedProcess::~PipedProcess() = default;

std::optional<std::string> PipedProcess::start(SessionLauncher& launcher, WorkerSpec spec, bool converses) {
    OwnedDescriptor in, out, error, childs_in, childs_out, childs_error;
    if (!make_ends(converses, true, in, childs_in) || !make_ends(false, false, out, childs_out) ||
        !make_ends(false, false, error, childs_error))
        return std::string("cannot start '") + spec.argv.front() + "': pipe: " + std::strerror(errno);
    spec.standard_input = GivenDescriptor{childs_in.get()};
    spec.standard_output = GivenDescriptor{childs_out.get()};
    spec.standard_error = GivenDescriptor{childs_error.get()};
    auto started = launcher(input_.get_executor(), spec);
    if (const auto* failure = std::get_if<StartFailure>(&started)) return failure->text;
    process_ =
        std::make_unique<SessionLauncher::Process>(std::get<SessionLauncher::Process>(std::move(started)));
    input_.assign(in.release());
    output_.assign(out.release());
    error_output_.assign(error.release());
    read(said_);
    read(complained_);
    if (converses) read(answered_);
    watch();
    return std::nullopt;
}

void PipedProcess::watch() {
    process_->async_wait(alive_.guard([this](const boost::system::error_code&, int) {
        status_ = decode_wait_status(process_->native_exit_code());
        process_.reset();
        await_drained();
        look_for_end();
    }));
}

void PipedProcess::await_drained() {
    drain_timer_.expires_after(kPipeDrainTime);
    drain_timer_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
        if (!cancelled) end();
    }));
}

void PipedProcess::read(Source& source) {
    if (source.is_awaited || !source.stream.is_open() || (is_held_ && source.may_be_held)) return;
    source.is_awaited = true;
    source.stream.async_wait(Stream::wait_read,
                             alive_.guard([this, &source](const boost::system::error_code& error) {
                                 source.is_awaited = false;
                                 if (!error && !(is_held_ && source.may_be_held)) read_some(source);
                             }));
}

void PipedProcess::read_some(Source& source) {
    std::array<char, kPipeReadAtOnce> bytes;
    const ssize_t count = ::read(source.stream.native_handle(), bytes.data(), bytes.size());
    if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) {
        // It comes first, since what is told may end this object.
        read(source);
        if (count > 0) (events_.*source.event)({bytes.data(), static_cast<std::size_t>(count)});
        return;
    }
    boost::system::error_code ignored;  // Nothing more comes from there.
    if (&source != &answered_) source.stream.close(ignored);
    look_for_end();
}

void PipedProcess::look_for_end() {
    if (status_ && !output_.is_open() && !error_output_.is_open()) end();
}

void PipedProcess::end() {
    if (is_held_) return;  // What it said is still to be told.
    boost::system::error_code ignored;
    drain_timer_.cancel();
    input_.close(ignored);
    output_.close(ignored);
    error_output_.close(ignored);
    if (const auto done = std::exchange(events_.on_end, {})) done(*status_);
}

void PipedProcess::write(std::shared_ptr<const std::string> bytes) {
    if (!input_.is_open() || bytes->empty()) return;
    outgoing_.push_back(std::move(bytes));
    if (!is_writing_) write_next();
}

void PipedProcess::write_next() {
    while (!outgoing_.empty()) {
        const std::string_view rest = std::string_view(*outgoing_.front()).substr(written_);
        const ssize_t count = ::write(input_.native_handle(), rest.data(), rest.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) break;
        if (count < 0) {
            // It has ended, as its own event says.
            outgoing_.clear();
            written_ = 0;
            return;
        }
        written_ += static_cast<std::size_t>(count);
        if (written_ < outgoing_.front()->size()) continue;
        outgoing_.pop_front();
        written_ = 0;
    }
    is_writing_ = !outgoing_.empty();
    if (!is_writing_) return;
    input_.async_wait(Stream::wait_write, alive_.guard([this](const boost::system::error_code& error) {
        is_writing_ = false;
        if (!error) write_next();
    }));
}

void PipedProcess::hold(bool is_held) {
    if (is_held_ == is_held) return;
    is_held_ = is_held;
    if (is_held) return;
    read(said_);
    read(complained_);
    if (status_) await_drained();
}

void PipedProcess::signal(int signal) const {
    if (process_) ::kill(process_->id(), signal);
}

void PipedProcess::let_go() {
    if (process_) process_->detach();
}

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
                                                        plan_.ships, plan_.owners}),
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

HostConnections::HostConnections(const boost::asio::any_io_executor& executor, HostEvents events)
    : executor_(executor), events_(std::move(events)) {
    tools_.environment = current_environment();
    tools_.identity = build_identity();
    tools_.file = own_program();
}

void HostConnections::begin(const StartPlan& whole, std::vector<std::vector<StartNode>> branches) {
    for (auto& branch : branches)
        starts_.push_back(std::make_unique<HostConnection>(
            executor_, tools_, plan_of_branch(whole, std::move(branch)), events_));
    for (const auto& start : starts_) start->begin();
}

void HostConnections::send(const DownMessage& message) {
    for (const auto& start : starts_) start->send(message);
}

void HostConnections::send_to(int rank, const DownMessage& message) {
    for (const auto& start : starts_) {
        if (start->node().rank == rank) start->send(message);
    }
}

void HostConnections::hold(bool is_held) {
    if (is_held == is_held_) return;
    is_held_ = is_held;
    for (const auto& start : starts_) start->hold(is_held);
}

void HostConnections::kill() {
    for (const auto& start : starts_) start->kill();
}

bool HostConnections::are_over() const {
    return std::all_of(starts_.begin(), starts_.end(), [](const auto& start) { return start->is_over(); });
}

bool HostConnections::are_settled() const {
    return std::none_of(starts_.begin(), starts_.end(),
                        [](const auto& start) { return start->is_connecting(); });
}

std::vector<std::string> HostConnections::left() const {
    std::vector<std::string> targets;
    for (const auto& start : starts_) {
        if (!start->is_over()) targets.push_back(start->node().target);
    }
    return targets;
}

}  // namespace launch
}  // namespace ddprun
