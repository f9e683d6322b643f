#include "launcher/output/pump_loop.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#include "launcher/output/worker_channel.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
namespace {

// What one read takes: few enough bytes to stay in a core's cache until they are written twice.
constexpr std::size_t kReadAtOnce = 128 * 1024;

// The launcher's own stream in ConsoleText; the workers' are numbered from 0.
constexpr int kLauncherStream = INT_MAX;

// Reads of one stream in one go for last_lines: a grandchild may write for ever.
constexpr int kMaxReadsAtOnce = 16;

bool same_thing(int a, int b) {
    struct stat first {};
    struct stat second {};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

void drain_eventfd(int fd) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t ignored = ::read(fd, &count, sizeof count);
}

}  // namespace

PumpLoop::PumpLoop(int out_fd, int err_fd, PumpTimes times, std::function<void(std::string)> on_notice)
    : times_(times),
      on_notice_(std::move(on_notice)),
      out_(std::make_unique<OutputConsole>(out_fd)),
      out_fd_(out_fd),
      err_fd_(err_fd),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      buffer_(kReadAtOnce) {
    check(static_cast<bool>(wake_), "no eventfd for the output pump");
    if (!same_thing(out_fd, err_fd)) own_err_ = std::make_unique<OutputConsole>(err_fd);
}

OutputConsole& PumpLoop::console(OutputStream stream) {
    return stream == OutputStream::err && own_err_ ? *own_err_ : *out_;
}

// Its thread is born with all signals blocked: none may find a handler of the agent's there, and SIGPIPE and
// SIGXFSZ become errors of write.
void PumpLoop::start() {
    start_without_signals([self = shared_from_this()] { self->run(); }).detach();
}

void PumpLoop::post(std::function<void()> command) {
    {
        std::lock_guard lock(mutex_);
        commands_.push_back(std::move(command));
        // Otherwise the thread has been woken for those before, and has not taken them yet.
        if (commands_.size() > 1) return;
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
}

bool PumpLoop::wait_for_end(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    return ended_condition_.wait_for(lock, patience, [this] { return ended_; });
}

void PumpLoop::run() {
    while (running_) {
        run_commands();
        settle();
        if (running_) wait();
    }
    std::lock_guard lock(mutex_);
    ended_ = true;
    ended_condition_.notify_all();
}

void PumpLoop::run_commands() {
    std::vector<std::function<void()>> commands;
    {
        std::lock_guard lock(mutex_);
        commands.swap(commands_);
    }
    for (const auto& command : commands) command();
}

void PumpLoop::wait() {
    std::vector<pollfd> events{{wake_.get(), POLLIN, 0}};
    std::vector<PumpStream*> streams;
    for (OutputConsole* console : {out_.get(), own_err_.get()}) {
        if (console != nullptr && console->writer.blocked()) {
            events.push_back({console->writer.poll_fd(), POLLOUT, 0});
        }
    }
    const std::size_t first_stream = events.size();
    for (PumpWorker& worker : workers_) {
        for (PumpStream& stream : worker.streams) {
            if (!readable_now(stream)) continue;
            events.push_back({stream.reader.get(), POLLIN, 0});
            streams.push_back(&stream);
        }
    }
    if (::poll(events.data(), events.size(), timeout(Clock::now())) < 0) {
        check(errno == EINTR, std::string("the output pump cannot wait: ") + std::strerror(errno));
        return;
    }
    if (events[0].revents != 0) drain_eventfd(wake_.get());
    flush_consoles();
    for (std::size_t i = 0; i < streams.size(); ++i) {
        // The stream before may have filled the console.
        if (events[first_stream + i].revents != 0 && readable_now(*streams[i])) read_some(*streams[i]);
    }
}

// Everything that follows from what was read, from commands and from the time.
void PumpLoop::settle() {
    const auto now = Clock::now();
    for (PumpWorker& worker : workers_) look_at(worker, now);
    // In this order: lines that wait for a blocked console must not stay behind when this unblocks it.
    flush_consoles();
    say_launcher_lines();
    look_at_drain(now);
}

int PumpLoop::timeout(Clock::time_point now) const {
    std::optional<Clock::time_point> due = drain_due_;
    const auto consider = [&due](const std::optional<Clock::time_point>& time) {
        if (time && (!due || *time < *due)) due = time;
    };
    for (const PumpWorker& worker : workers_) {
        consider(worker.update_due);
        consider(worker.finish_due);
    }
    if (!due) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - now).count();
    return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
}

// While a console takes nothing, the streams that go there are not read.
bool PumpLoop::readable_now(const PumpStream& stream) const {
    const OutputConsole* console = stream.route.console();
    return stream.reader && (console == nullptr || !console->writer.blocked());
}

void PumpLoop::read_some(PumpStream& stream) {
    const std::size_t wanted = std::min(buffer_.size(), stream.remaining.value_or(buffer_.size()));
    const ssize_t count = wanted == 0 ? 0 : ::read(stream.reader.get(), buffer_.data(), wanted);
    // A terminal whose other end was closed gives EIO.
    if (count < 0 && (errno == EAGAIN || errno == EINTR) && !stream.remaining) return;
    if (count <= 0) return close(stream);
    const auto size = static_cast<std::size_t>(count);
    bytes_read_ += size;
    if (stream.remaining) *stream.remaining -= size;
    stream.route.take({buffer_.data(), size});
    note_loss(stream.route.file());
    note_loss(stream.route.filtered_file());
}

void PumpLoop::close(PumpStream& stream) {
    stream.reader.reset();
    stream.remaining.reset();
    stream.route.end();
    count_loss(stream.route.file());
    count_loss(stream.route.filtered_file());
    stream.route.close_files();
}

void PumpLoop::look_at(PumpWorker& worker, Clock::time_point now) {
    bool all_closed = true;
    bool unseen = false;
    for (PumpStream& stream : worker.streams) {
        if (stream.remaining == std::size_t{0}) close(stream);
        all_closed = all_closed && !stream.reader;
        unseen = unseen || stream.route.has_unseen();
    }
    if (worker.update_due && *worker.update_due <= now) {
        worker.update_due.reset();
        for (PumpStream& stream : worker.streams) {
            // A state that nobody can see now is shown later.
            if (stream.route.has_unseen() && readable_now(stream)) stream.route.show_unfinished();
        }
    } else if (unseen && !worker.update_due) {
        worker.update_due = now + times_.update_interval;
    }
    if (worker.finish_due && (all_closed || *worker.finish_due <= now)) {
        worker.finish_due.reset();
        for (PumpStream& stream : worker.streams) give_up_waiting(stream);
        if (auto done = std::exchange(worker.on_finished, nullptr)) done();
    }
}

// Somebody outside the worker's process group holds the stream open: what is in it now is taken, no more.
void PumpLoop::give_up_waiting(PumpStream& stream) {
    if (!stream.reader || stream.remaining) return;
    int in_pipe = 0;
    if (::ioctl(stream.reader.get(), FIONREAD, &in_pipe) != 0) in_pipe = 0;
    stream.remaining = static_cast<std::size_t>(std::max(in_pipe, 0));
    if (in_pipe <= 0) close(stream);
}

void PumpLoop::give_up_blocked_consoles() {
    flush_consoles();
    for (OutputConsole* console : {out_.get(), own_err_.get()}) {
        if (console != nullptr && console->writer.blocked()) console->writer.give_up();
    }
}

void PumpLoop::say_launcher_lines() {
    OutputConsole& console = this->console(OutputStream::err);
    if (announcements_.empty() || console.writer.blocked()) return;
    if (announcements_lost_ > 0) {
        announcements_.push_back("ddprun: " + std::to_string(announcements_lost_) +
                                 " more lines of the launcher were not shown");
        announcements_lost_ = 0;
    }
    for (const std::string& line : announcements_) {
        console.text.add(console.writer.buffer(), kLauncherStream, {}, line + "\n");
    }
    announcements_.clear();
    console.writer.flush();
}

void PumpLoop::look_at_drain(Clock::time_point now) {
    if (!on_drained_) return;
    const bool streams_closed = std::all_of(workers_.begin(), workers_.end(), [](const PumpWorker& worker) {
        return std::none_of(worker.streams.begin(), worker.streams.end(),
                            [](const PumpStream& stream) { return static_cast<bool>(stream.reader); });
    });
    if (progress() != progress_seen_) {
        progress_seen_ = progress();
        drain_due_ = now + drain_patience_;
    }
    const bool all_shown = streams_closed && announcements_.empty() && !consoles_blocked();
    if (!all_shown && now < *drain_due_) return;
    drain_due_.reset();
    for (OutputConsole* console : {out_.get(), own_err_.get()}) {
        if (console != nullptr && console->writer.is_terminal())
            console->text.end_line(console->writer.buffer());
    }
    flush_consoles();
    std::exchange(on_drained_, nullptr)();
}

void PumpLoop::flush_consoles() {
    out_->writer.flush();
    if (own_err_) own_err_->writer.flush();
}

bool PumpLoop::consoles_blocked() const {
    return out_->writer.blocked() || (own_err_ && own_err_->writer.blocked());
}

std::uint64_t PumpLoop::progress() const {
    return bytes_read_ + out_->writer.written() + (own_err_ ? own_err_->writer.written() : 0);
}

void PumpLoop::note_loss(const LogFile* file) {
    if (file == nullptr || file->dropped() == 0 || !noted_.insert(file->path()).second) return;
    on_notice_("cannot write " + file->path() + ": " + std::strerror(file->error_number()) +
               "; what does not fit is dropped, the workers go on");
}

void PumpLoop::count_loss(const LogFile* file) {
    if (file == nullptr || file->dropped() == 0) return;
    note_loss(file);
    losses_[file->path()] = std::to_string(file->dropped()) + " bytes of " + file->path() +
                            " could not be written: " + std::strerror(file->error_number());
}

std::vector<std::string> PumpLoop::losses() const {
    std::vector<std::string> lines;
    for (const auto& [path, line] : losses_) lines.push_back(line);
    return lines;
}

PumpWorker* PumpLoop::find(int local_rank) {
    const auto worker =
        std::find_if(workers_.rbegin(), workers_.rend(),
                     [local_rank](const PumpWorker& entry) { return entry.local_rank == local_rank; });
    return worker == workers_.rend() ? nullptr : &*worker;
}

// --- commands ---

void PumpLoop::add(PumpWorker worker) {
    // Of the rank's last round only what has not reached its end is kept.
    const auto ended = std::remove_if(workers_.begin(), workers_.end(), [&worker](const PumpWorker& old) {
        return old.local_rank == worker.local_rank && !old.on_finished &&
               std::none_of(old.streams.begin(), old.streams.end(),
                            [](const PumpStream& stream) { return static_cast<bool>(stream.reader); });
    });
    workers_.erase(ended, workers_.end());
    workers_.push_back(std::move(worker));
}

std::vector<std::string> PumpLoop::last_lines(int local_rank) {
    PumpWorker* worker = find(local_rank);
    if (worker == nullptr || worker->streams.empty()) return {};
    PumpStream& stream = worker->streams.back();
    for (int reads = 0; reads < kMaxReadsAtOnce && readable_now(stream); ++reads) {
        const std::uint64_t before = bytes_read_;
        read_some(stream);
        if (bytes_read_ == before) break;
    }
    return stream.route.last_lines();
}

void PumpLoop::finish(int local_rank, std::function<void()> done) {
    PumpWorker* worker = find(local_rank);
    if (worker == nullptr) return done();
    worker->on_finished = std::move(done);
    worker->finish_due = Clock::now() + times_.drain_patience;
    look_at(*worker, Clock::now());
}

void PumpLoop::replay_stderr(int local_rank) {
    PumpWorker* worker = find(local_rank);
    if (worker == nullptr || worker->streams.empty()) return;
    const OutputRoute& route = worker->streams.back().route;
    if (route.console() == nullptr) route.replay(console(OutputStream::err));
}

void PumpLoop::announce(const std::string& line) {
    if (announcements_.size() < kMaxAnnouncements) {
        announcements_.push_back(line);
    } else {
        ++announcements_lost_;
    }
    say_launcher_lines();
}

void PumpLoop::window_changed() {
    for (PumpWorker& worker : workers_) {
        for (PumpStream& stream : worker.streams) {
            const bool goes_out = stream.route.console() == out_.get();
            if (stream.reader && stream.is_terminal) {
                copy_window_size(goes_out ? out_fd_ : err_fd_, stream.reader.get());
            }
        }
    }
}

void PumpLoop::drain(std::function<void()> done, std::chrono::milliseconds patience) {
    on_drained_ = std::move(done);
    const auto now = Clock::now();
    drain_patience_ = patience;
    drain_due_ = now + patience;
    progress_seen_ = progress();
    for (PumpWorker& worker : workers_) {
        if (!worker.finish_due) worker.finish_due = now + times_.drain_patience;
    }
}

void PumpLoop::end() {
    running_ = false;
    give_up_blocked_consoles();
    say_launcher_lines();
    for (PumpWorker& worker : workers_) {
        for (PumpStream& stream : worker.streams) {
            // The files get what was held back only for the sake of a console.
            give_up_waiting(stream);
            while (stream.reader && *stream.remaining > 0) read_some(stream);
            if (stream.reader) close(stream);
        }
    }
    give_up_blocked_consoles();
    for (const auto& [name, console] :
         {std::pair{"stdout", out_.get()}, std::pair{"stderr", own_err_.get()}}) {
        if (console == nullptr) continue;
        if (const std::uint64_t lost = console->writer.dropped(); lost > 0) {
            losses_[name] = std::to_string(lost) + " bytes could not be written to " + name +
                            (console->writer.gave_up() ? ", which took nothing more" : "");
        }
    }
}

}  // namespace ddprun
