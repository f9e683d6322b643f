#include "launcher/watchdog/file_watchdog.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "launcher/process/signal_delivery.hpp"
#include "launcher/watchdog/timer_owner.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

using Clock = std::chrono::steady_clock;

bool is_there(pid_t pid, std::uint64_t start_time) {
    const auto process = read_process_stat(pid);
    return process && process->start_time == start_time && !process->ended();
}

// Of the reader's own, since it closes it.
int copy_of(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0) fail_errno(errno, "cannot read the workers' timers (dup)");
    return copy;
}

}  // namespace

std::string cause_text(const ExpiredTimer& timer, pid_t worker) {
    const std::string whose = timer.pid == worker ? "" : fmt::format(" of its process {}", timer.pid);
    return fmt::format("its watchdog timer {}{} expired, and ddprun sent {}", to_text(timer), whose,
                       signal_text(timer.signal));
}

FileWatchdog::FileWatchdog(const boost::asio::any_io_executor& executor, std::unique_ptr<TimerPipe> pipe,
                           WatchdogEvents events)
    : pipe_(std::move(pipe)),
      events_(std::move(events)),
      reader_(executor, copy_of(pipe_->descriptor())),
      timer_(executor) {}

void FileWatchdog::start() {
    if (pipe_->is_elsewhere())
        events_.on_warning(fmt::format("{} is another launcher's, so the timers of these workers go by '{}'",
                                       kTimerFileVariable, path()));
    await_requests();
}

void FileWatchdog::freeze() {
    if (!frozen_) frozen_ = Clock::now();
    arm();
}

void FileWatchdog::thaw() {
    if (frozen_) table_.shift(Clock::now() - *frozen_);
    frozen_.reset();
    arm();
}

void FileWatchdog::rest() {
    rests_ = true;
    arm();
}

std::string FileWatchdog::cause_of(pid_t worker) const {
    const auto cause = causes_.find(worker);
    return cause == causes_.end() ? std::string() : cause->second;
}

void FileWatchdog::await_requests() {
    reader_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       alive_.guard([this](const boost::system::error_code& error) {
                           if (error) return;
                           read_requests();
                           arm();
                           await_requests();
                       }));
}

void FileWatchdog::read_requests() {
    std::string bytes(kTimerBytesAtOnce, '\0');
    const ssize_t count = ::read(pipe_->descriptor(), bytes.data(), bytes.size());
    if (count <= 0) return;
    lines_.push(std::string_view(bytes).substr(0, static_cast<std::size_t>(count)),
                [this](std::string_view line) { take(line); });
}

void FileWatchdog::take(std::string_view line) {
    const auto parsed = parse_timer_request(line);
    if (const auto* why = std::get_if<std::string>(&parsed)) return pass_over(*why);
    const auto& request = std::get<TimerRequest>(parsed);
    if (request.is_release()) return table_.release(request.pid, request.scope);
    set(request);
}

void FileWatchdog::set(const TimerRequest& request) {
    const auto process = read_process_stat(request.pid);
    if (!process) return pass_over(fmt::format("there is no process {} here", request.pid));
    const auto try_it = [&] {
        const std::chrono::duration<double> unix_time = std::chrono::system_clock::now().time_since_epoch();
        return table_.set(request, process->start_time, Clock::now(), unix_time.count());
    };
    if (try_it()) return;
    table_.forget([](pid_t pid, std::uint64_t start_time) { return !is_there(pid, start_time); });
    if (!try_it()) pass_over(fmt::format("there are {} timers already", kMaxTimers));
}

void FileWatchdog::pass_over(const std::string& why) {
    if (std::exchange(has_passed_over_, true)) return;
    events_.on_warning(
        fmt::format("a line for the workers' timers in '{}' is passed over, as others like it "
                    "will be: {}",
                    path(), why));
}

void FileWatchdog::arm() {
    timer_.cancel();
    const auto next = table_.next();
    if (!next || frozen_ || rests_) return;
    timer_.expires_at(*next);
    timer_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
        if (!cancelled && !frozen_ && !rests_) look();
    }));
}

void FileWatchdog::look() {
    // A timer may be taken back by what is in the pipe.
    read_requests();
    const auto expired = table_.take_expired(Clock::now());
    if (!expired.empty()) {
        const auto processes = read_own_processes();
        for (const ExpiredTimer& timer : expired) end(timer, processes.value_or(std::vector<ProcessStat>()));
    }
    arm();
}

void FileWatchdog::end(const ExpiredTimer& timer, const std::vector<ProcessStat>& processes) {
    // One that has ended, whoever has its number now, needs nothing more.
    if (!is_there(timer.pid, timer.start_time)) return;
    const auto worker = owner_of(timer.pid, events_.workers(), processes);
    events_.on_expired(timer, worker);
    if (timer.signal <= 0) return;
    if (!worker) {
        return events_.on_warning(fmt::format(
            "the timer {} of process {} expired, which is none of this node's workers: it is sent nothing",
            to_text(timer), timer.pid));
    }
    causes_.emplace(*worker, cause_text(timer, *worker));
    const auto process = std::find_if(processes.begin(), processes.end(),
                                      [&](const ProcessStat& one) { return one.pid == timer.pid; });
    signal_process(*process, timer.signal);
}

}  // namespace ddprun::inline launch
