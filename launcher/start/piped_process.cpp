#include "launcher/start/piped_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

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

}  // namespace launch
}  // namespace ddprun
