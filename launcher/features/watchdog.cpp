#include "launcher/features/watchdog.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "launcher/features/timer_table.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline launch {
namespace {

// Each is lost only to a launcher that has ended, and taken its pipe away, in between.
constexpr int kTurns = 10;

std::string new_timer_path(const std::string& temporary) {
    return fmt::format("{}/ddprun_timers_{}", temporary, hex_text(random_bytes<8>("a name")));
}

enum class AtPlace { nothing, unused_pipe, used_pipe, something_else };

AtPlace look_at_place(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return AtPlace::nothing;
    if (!S_ISFIFO(info.st_mode) || info.st_uid != ::geteuid()) return AtPlace::something_else;
    // A pipe without a reader cannot be opened for writing.
    const OwnedDescriptor writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    return writer ? AtPlace::used_pipe : AtPlace::unused_pipe;
}

bool is_at(const std::string& path, const OwnedDescriptor& pipe) {
    struct stat own {};
    struct stat there {};
    return ::fstat(pipe.get(), &own) == 0 && S_ISFIFO(own.st_mode) && ::lstat(path.c_str(), &there) == 0 &&
           own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

using Clock = std::chrono::steady_clock;

bool is_there(pid_t pid, std::uint64_t start_time) {
    const auto process = read_process_stat(pid);
    return process && process->start_time == start_time && !process->ended();
}

// The reader has a descriptor of its own, since it closes it.
int copy_of(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0) fail_errno(errno, "cannot read the workers' timers (dup)");
    return copy;
}

}  // namespace

bool wants_timers(const Environment& environment) {
    const std::string* enabled = find_variable(environment, kEnableTimersVariable);
    return enabled != nullptr && *enabled == "1";
}

TimerPipe::TimerPipe(const std::string& chosen, const std::string& temporary) {
    if (!chosen.empty()) {
        const std::string path = std::filesystem::absolute(chosen).string();
        for (int turn = 0; turn < kTurns && !pipe_ && !is_elsewhere_; ++turn) take(path);
        if (pipe_) return;
        is_elsewhere_ = true;
    }
    take(new_timer_path(temporary));
    if (!pipe_) fail(Errc::malformed, "a new pipe for the workers' timers is another's already");
}

void TimerPipe::take(const std::string& path) {
    switch (look_at_place(path)) {
        case AtPlace::used_pipe: is_elsewhere_ = true; return;
        case AtPlace::something_else:
            fail(Errc::malformed,
                 fmt::format("{} '{}' is there, but is no named pipe of this user's, so it is left as it is",
                             kTimerFileVariable, path));
        case AtPlace::unused_pipe: break;
        case AtPlace::nothing:
            if (::mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST)
                fail_errno(errno, fmt::format("cannot make the pipe '{}' for the workers' timers ({}=1, {})",
                                              path, kEnableTimersVariable, kTimerFileVariable));
            break;
    }
    OwnedDescriptor pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (!pipe && errno == ENOENT) return;  // Its owner has ended.
    if (!pipe) fail_errno(errno, fmt::format("cannot open the pipe '{}' for the workers' timers", path));
    // File systems without locks leave it at the look above.
    if (::flock(pipe.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        is_elsewhere_ = true;
        return;
    }
    if (!is_at(path, pipe)) return;
    ::fchmod(pipe.get(), 0600);
    path_ = path;
    pipe_ = above_standard_streams(std::move(pipe));
}

// Somebody may have put something else there meanwhile.
TimerPipe::~TimerPipe() {
    if (pipe_ && is_at(path_, pipe_)) ::unlink(path_.c_str());
}

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
    // A process that has ended needs nothing more, whoever has its number now.
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

namespace {

bool stops_workers(AgentState state) {
    return state == AgentState::stopping || state == AgentState::stopping_alone ||
           state == AgentState::stopping_leaderless;
}

class WatchdogFeature final : public Feature {
  public:
    void began(AgentControls& agent) override { agent_ = &agent; }
    void round_begins(const RoundReady& place, WorkerVariables& variables) override {
        round_ = place.round;
        const LaunchOptions& options = agent_->options();
        auto pipe = std::make_unique<TimerPipe>(*options.timer_place, temporary_folder(options.environment));
        watchdog_.emplace(
            agent_->executor(), std::move(pipe),
            WatchdogEvents{.workers =
                               [this] {
                                   std::vector<pid_t> running;
                                   for (const WorkerStatus& worker : workers()) running.push_back(worker.pid);
                                   return running;
                               },
                           .on_expired = [this](const auto& timer, auto worker) { tell(timer, worker); },
                           .on_warning = [this](const auto& text) { agent_->say(LogLevel::warn, text); }});
        variables.over[kTimerFileVariable] = watchdog_->path();
        watchdog_->start();
    }
    void learnt(const AgentNews& news) override {
        if (!watchdog_) return;
        if (std::holds_alternative<Suspended>(news)) watchdog_->freeze();
        if (std::holds_alternative<Resumed>(news)) watchdog_->thaw();
        const auto* change = std::get_if<StateChanged>(&news);
        if (change != nullptr && stops_workers(change->after)) watchdog_->rest();
    }
    void worker_failed(Failure& failure) override {
        if (watchdog_) failure.message = watchdog_->cause_of(static_cast<pid_t>(failure.pid));
    }
    void round_over() override { watchdog_.reset(); }
    void agent_leaves() override { watchdog_.reset(); }
    void add_to(LauncherTraces& traces) const override {
        if (watchdog_) traces.pipe = watchdog_->path();
    }

  private:
    std::vector<WorkerStatus> workers() const {
        std::vector<WorkerStatus> all = agent_->status().workers;
        std::erase_if(all, [](const WorkerStatus& worker) { return worker.exit_code.has_value(); });
        return all;
    }

    void tell(const ExpiredTimer& timer, std::optional<pid_t> worker) {
        TimerExpired news{
            .round = round_, .pid = timer.pid, .scope = timer.scope, .length_ms = timer.length.count()};
        for (const WorkerStatus& status : workers()) {
            if (worker != status.pid) continue;
            news.rank = status.rank;
            news.local_rank = status.local_rank;
            news.signal = std::max(timer.signal, 0);
        }
        agent_->tell(news);
        // The end of a worker itself is told of anyway.
        if (news.signal > 0 && worker != timer.pid)
            agent_->say(LogLevel::warn, fmt::format("rank {}: {}", news.rank, cause_text(timer, *worker)));
    }

    AgentControls* agent_ = nullptr;
    int round_ = 0;
    std::optional<FileWatchdog> watchdog_;  // while there are workers
};

}  // namespace

std::unique_ptr<Feature> make_watchdog(FeatureInputs& inputs) {
    return inputs.options.timer_place ? std::make_unique<WatchdogFeature>() : nullptr;
}

}  // namespace ddprun::inline launch
