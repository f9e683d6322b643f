#include "launcher/output/pump_loop.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

#include "launcher/harmless_text.hpp"
#include "launcher/output/worker_channel.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

// One read takes so many bytes: few enough to stay in a core's cache until they are written twice.
constexpr std::size_t kReadAtOnce = 128 * 1024;

// Of a line that has not ended clients are shown so many bytes.
constexpr std::size_t kMostOpenLine = 4096;

// One stream is read so often in one go for last_lines: a grandchild may write for ever.
constexpr int kMaxReadsAtOnce = 16;

// What the worker has written and nobody has read yet, in bytes.
std::size_t unread_of(PumpStream& stream) {
    int in_pipe = 0;
    const bool is_known =
        stream.reader.is_open() && ::ioctl(stream.reader.native_handle(), FIONREAD, &in_pipe) == 0;
    return is_known && in_pipe > 0 ? static_cast<std::size_t>(in_pipe) : 0;
}

// While a console takes nothing, the streams that go there are not read.
bool is_wanted(const PumpStream& stream) {
    const OutputConsole* console = stream.route.console();
    return stream.reader.is_open() && (console == nullptr || !console->writer.blocked());
}

}  // namespace

bool PumpWorker::has_ended() const {
    return std::none_of(streams.begin(), streams.end(),
                        [](const PumpStream& stream) { return stream.reader.is_open(); });
}

PumpLoop::PumpLoop(int out_fd, int err_fd, std::function<void(std::string)> on_notice)
    : on_notice_(std::move(on_notice)), buffer_(std::make_unique_for_overwrite<char[]>(kReadAtOnce)) {
    consoles_.emplace_back(context_.get_executor(), out_fd);
    if (!are_one_console(out_fd, err_fd)) consoles_.emplace_back(context_.get_executor(), err_fd);
}

OutputConsole& PumpLoop::console(OutputStream stream) {
    return stream == OutputStream::err ? consoles_.back() : consoles_.front();
}

// Its thread is born with all signals blocked: none may find a handler of the agent's there, and SIGPIPE and
// SIGXFSZ become errors of write.
void PumpLoop::start() {
    start_without_signals([self = shared_from_this()]() mutable {
        const auto work = asio::make_work_guard(self->context_);
        self->context_.run();
        self->ended_.set_value();
    }).detach();
}

void PumpLoop::post(std::function<void()> command) {
    asio::post(context_, [this, command = std::move(command)] {
        command();
        settle_soon();
    });
}

bool PumpLoop::wait_for_end(std::chrono::milliseconds timeout) {
    return end_.wait_for(timeout) == std::future_status::ready;
}

// --- streams ---

void PumpLoop::await_input(const Worker& worker, PumpStream& stream) {
    if (stream.is_awaited || !stream.reader.is_open()) return;
    stream.is_awaited = is_wanted(stream);
    if (!stream.is_awaited) {
        has_held_back_ = true;
        return;
    }
    stream.reader.async_wait(Descriptor::wait_read, [this, worker, &stream](boost::system::error_code) {
        stream.is_awaited = false;
        // The stream before may have filled the console.
        if (is_wanted(stream)) read_some(stream);
        look_at(worker);
        await_input(worker, stream);
        settle_soon();
    });
}

void PumpLoop::read_some(PumpStream& stream) {
    const std::size_t wanted = std::min(kReadAtOnce, stream.remaining.value_or(kReadAtOnce));
    const ssize_t count = ::read(stream.reader.native_handle(), buffer_.get(), wanted);
    // A terminal whose other end was closed gives EIO.
    if (count < 0 && (errno == EAGAIN || errno == EINTR) && !stream.remaining) return;
    if (count <= 0) return close(stream);
    const auto size = static_cast<std::size_t>(count);
    bytes_read_ += size;
    *stream.printed += size;
    stream.route.take({buffer_.get(), size});
    note_loss(stream.route.file());
    note_loss(stream.route.filtered_file());
    if (stream.remaining && (*stream.remaining -= size) == 0) close(stream);
}

void PumpLoop::close(PumpStream& stream) {
    stream.reader.close();
    stream.route.end();
    note_loss(stream.route.file());
    note_loss(stream.route.filtered_file());
    stream.route.close_files();
}

// A process outside the worker's group holds the stream open: what is in it now is taken, no more.
void PumpLoop::give_up_waiting(PumpStream& stream) {
    if (!stream.reader.is_open() || stream.remaining) return;
    const std::size_t unread = unread_of(stream);
    if (unread == 0) return close(stream);
    stream.remaining = unread;
}

void PumpLoop::look_at(const Worker& worker) {
    if (worker->on_finished && worker->has_ended()) finished(*worker);
    const bool has_unseen = std::any_of(worker->streams.begin(), worker->streams.end(),
                                        [](const PumpStream& stream) { return stream.route.has_unseen(); });
    if (!has_unseen || std::exchange(worker->is_update_due, true)) return;
    worker->update_timer.expires_after(kUpdateInterval);
    worker->update_timer.async_wait([this, worker](boost::system::error_code) { update(worker); });
}

void PumpLoop::update(const Worker& worker) {
    worker->is_update_due = false;
    for (PumpStream& stream : worker->streams) {
        // A state that nobody can see now is shown later, and a line whose rest has come does not stand: it
        // is only unread.
        if (stream.route.has_unseen() && is_wanted(stream) && unread_of(stream) == 0)
            stream.route.show_unfinished();
    }
    look_at(worker);
    settle_soon();
}

void PumpLoop::finish(const Worker& worker, std::function<void()> done) {
    worker->on_finished = std::move(done);
    look_at(worker);
    if (!worker->on_finished) return;
    worker->finish_timer.expires_after(kDrainTimeout);
    worker->finish_timer.async_wait([this, worker](boost::system::error_code cancelled) {
        if (cancelled || !worker->on_finished) return;
        for (PumpStream& stream : worker->streams) give_up_waiting(stream);
        finished(*worker);
        settle_soon();
    });
}

void PumpLoop::finished(PumpWorker& worker) {
    worker.finish_timer.cancel();
    std::exchange(worker.on_finished, nullptr)();
}

PumpLoop::Worker PumpLoop::find(int local_rank) const {
    const auto worker = std::find_if(workers_.rbegin(), workers_.rend(), [local_rank](const Worker& entry) {
        return entry->local_rank == local_rank;
    });
    return worker == workers_.rend() ? nullptr : *worker;
}

// --- consoles ---

// The thread shows what it was given in these steps:
// 1. It waits for input of the workers, room in a blocked console, commands of the agent, and times; nothing
//    else.
// 2. Input of a stream goes through its route into files and into the buffers of the consoles. A stream whose
//    console is blocked is not awaited, so the worker's pipe fills and the worker waits, nobody else.
// 3. After each handler the consoles are settled once for all that came meanwhile (settle_soon): the loop
//    looks at its descriptors in between.
// 4. Settling writes the buffers out, then the launcher's own lines; a console that does not take everything
//    is blocked until its descriptor is writable, and the streams that were held back for it are awaited
//    again after that.
// 5. While draining, settling also looks whether everything is shown; the timeout begins anew as long as
//    anything moves.
void PumpLoop::settle_soon() {
    kept_readers_.look();
    const bool has_output = std::any_of(consoles_.begin(), consoles_.end(), [](OutputConsole& console) {
        return !console.writer.buffer().empty();
    });
    if (!(has_output || on_drained_) || std::exchange(is_settling_, true)) return;
    asio::post(context_, [this] {
        is_settling_ = false;
        show_and_wait();
    });
}

void PumpLoop::show_and_wait() {
    // The order matters: lines that wait for a blocked console must not stay behind when this unblocks it.
    for (OutputConsole& console : consoles_) console.writer.flush();
    say_launcher_lines();
    for (OutputConsole& console : consoles_) {
        if (!console.await_room([this] { show_and_wait(); })) settle_soon();
    }
    if (std::exchange(has_held_back_, false)) {
        for (const Worker& worker : workers_) {
            for (PumpStream& stream : worker->streams) await_input(worker, stream);
        }
    }
    if (!on_drained_) return;
    if (const auto now = progress(); now != std::exchange(progress_seen_, now)) await_drained();
    if (all_shown()) drained();
}

void PumpLoop::say_launcher_lines() {
    OutputConsole& console = this->console(OutputStream::err);
    if (announcements_.empty() || console.writer.blocked()) return;
    if (announcements_lost_ > 0) {
        announcements_.push_back(fmt::format("{}{} more lines of the launcher were not shown", kLauncherMark,
                                             announcements_lost_));
        announcements_lost_ = 0;
    }
    for (const std::string& line : announcements_) {
        console.text.add(console.writer.buffer(), OutputConsole::kLauncherStream, {}, line + "\n");
    }
    announcements_.clear();
    console.writer.flush();
}

bool PumpLoop::all_shown() const {
    return announcements_.empty() &&
           std::none_of(consoles_.begin(), consoles_.end(),
                        [](const OutputConsole& console) { return console.writer.blocked(); }) &&
           std::all_of(workers_.begin(), workers_.end(),
                       [](const Worker& worker) { return worker->has_ended(); });
}

void PumpLoop::await_drained() {
    drain_timer_.expires_after(drain_timeout_);
    drain_timer_.async_wait([this](boost::system::error_code cancelled) {
        if (!cancelled && on_drained_) drained();
    });
}

void PumpLoop::drained() {
    for (OutputConsole& console : consoles_) {
        if (console.writer.is_terminal()) console.text.end_line(console.writer.buffer());
        console.writer.flush();
    }
    drain_timer_.cancel();
    kept_readers_.finish();
    std::exchange(on_drained_, nullptr)();
}

void PumpLoop::give_up_blocked_consoles() {
    for (OutputConsole& console : consoles_) {
        console.writer.flush();
        if (console.writer.blocked()) console.writer.give_up();
    }
}

std::uint64_t PumpLoop::progress() const {
    return bytes_read_ + consoles_.front().writer.written() + consoles_.back().writer.written();
}

void PumpLoop::note_loss(const LogFile* file) {
    if (file == nullptr || file->dropped() == 0) return;
    const char* why = std::strerror(file->error_number());
    const auto [entry, is_new] = losses_.insert_or_assign(
        file->path(),
        fmt::format("{} bytes of {} could not be written: {}", file->dropped(), file->path(), why));
    if (is_new)
        on_notice_(fmt::format("cannot write {}: {}; what does not fit is dropped, the workers go on",
                               file->path(), why));
}

// Lines that have not ended stand at the end of what there is, and come again when they have. What waits gets
// none, or it would never have to wait; nor is a line shown whose rest has come and is only unread.
KeptPiece PumpLoop::read_kept(const KeptQuestion& asked, std::size_t most) {
    KeptPiece piece = kept_.read(asked.rank, asked.from, most);
    if (asked.waits || !piece.is_all) return piece;
    for (const Worker& worker : workers_) {
        for (PumpStream& stream : worker->streams) {
            const std::string_view line = stream.route.kept_unfinished().substr(0, kMostOpenLine);
            if (line.empty() || (asked.rank && *asked.rank != stream.route.rank())) continue;
            if (unread_of(stream) > 0) continue;
            if (line.size() + KeptOutput::kBlockCost > most) return piece;
            most -= line.size() + KeptOutput::kBlockCost;
            const int rank = stream.route.rank();
            piece.blocks.push_back({rank, std::string(stream_name(stream.route.stream())), unix_time_now_ms(),
                                    std::string(line), kept_.end_of(rank)});
        }
    }
    return piece;
}

std::vector<std::string> PumpLoop::losses() const {
    std::vector<std::string> lines;
    for (const auto& [name, line] : losses_) lines.push_back(line);
    return lines;
}

// --- commands ---

void PumpLoop::add(const Worker& worker) {
    // Only those of the rank's last round are kept that have not reached their end.
    std::erase_if(workers_, [&worker](const Worker& old) {
        return old->local_rank == worker->local_rank && !old->on_finished && old->has_ended();
    });
    workers_.push_back(worker);
    for (PumpStream& stream : worker->streams) await_input(worker, stream);
}

std::vector<std::string> PumpLoop::last_lines(int local_rank) {
    const Worker worker = find(local_rank);
    if (!worker || worker->streams.empty()) return {};
    read_errors();
    return worker->streams.back().route.last_lines();
}

void PumpLoop::read_errors() {
    for (const Worker& worker : workers_) {
        if (worker->streams.empty()) continue;
        PumpStream& stream = worker->streams.back();
        for (int reads = 0; reads < kMaxReadsAtOnce && is_wanted(stream); ++reads) {
            const std::uint64_t before = bytes_read_;
            read_some(stream);
            if (bytes_read_ == before) break;
        }
        look_at(worker);
    }
}

void PumpLoop::finish(int local_rank, std::function<void()> done) {
    const Worker worker = find(local_rank);
    if (!worker) return done();
    finish(worker, std::move(done));
}

void PumpLoop::replay_stderr(int local_rank) {
    const Worker worker = find(local_rank);
    if (!worker || worker->streams.empty()) return;
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

void PumpLoop::pass(const std::string& line) {
    OutputConsole& console = this->console(OutputStream::err);
    // A passing line that waits would be old when it is shown; the next text erases what stands there.
    if (!console.writer.is_terminal() || console.writer.blocked()) return;
    if (line.empty()) {
        console.text.erase_passing(console.writer.buffer());
    } else {
        console.text.pass(console.writer.buffer(), OutputConsole::kLauncherStream, {}, line,
                          console.writer.columns());
    }
    console.writer.flush();
}

void PumpLoop::window_changed() {
    for (const Worker& worker : workers_) {
        for (PumpStream& stream : worker->streams) {
            if (const OutputConsole* console = stream.route.console();
                console != nullptr && stream.reader.is_open())
                copy_window_size(console->writer.poll_fd(), stream.reader.native_handle());
        }
    }
}

void PumpLoop::drain(std::function<void()> done, std::chrono::milliseconds timeout) {
    on_drained_ = std::move(done);
    drain_timeout_ = timeout;
    progress_seen_ = progress();
    for (const Worker& worker : workers_) {
        if (!worker->on_finished) finish(worker, [] {});
    }
    await_drained();
}

void PumpLoop::end() {
    give_up_blocked_consoles();
    say_launcher_lines();
    for (const Worker& worker : workers_) {
        for (PumpStream& stream : worker->streams) {
            // The files get what was held back only for the sake of a console.
            give_up_waiting(stream);
            while (stream.reader.is_open()) read_some(stream);
        }
    }
    give_up_blocked_consoles();
    const char* name = "stdout";
    for (const OutputConsole& console : consoles_) {
        if (const std::uint64_t lost = console.writer.dropped(); lost > 0)
            losses_[name] = fmt::format("{} bytes could not be written to {}{}", lost, name,
                                        console.writer.gave_up() ? ", which took nothing more" : "");
        name = "stderr";
    }
    context_.stop();
}

}  // namespace launch
}  // namespace ddprun
