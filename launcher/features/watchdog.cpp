#include "launcher/features/watchdog.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cmath>
#include <filesystem>

#include "launcher/harmless_text.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxTimerDepth = 4;
constexpr std::size_t kTimerBeginningShown = 80;

std::string wrong_line(const std::string& why, std::string_view line) {
    return fmt::format("{}; it begins with: {}", why, harmless_line(line, kTimerBeginningShown));
}

std::optional<double> seconds_in(const boost::json::object& request) {
    const boost::json::value* member = request.if_contains("expiration_time");
    if (member == nullptr || !member->is_number()) return std::nullopt;
    return member->to_number<double>();
}

using Seconds = std::chrono::duration<double>;

constexpr std::size_t kMaxScopeShown = 120;

// It is never below zero: what was over when it came is over now.
std::chrono::milliseconds length_of(double expires, double unix_s) {
    const double left = std::clamp(expires - unix_s, 0.0, Seconds(kLongestTimer).count());
    return std::chrono::ceil<std::chrono::milliseconds>(Seconds(left));
}

const ProcessStat* process_of(pid_t pid, const std::vector<ProcessStat>& processes) {
    const auto found = std::find_if(processes.begin(), processes.end(),
                                    [pid](const ProcessStat& process) { return process.pid == pid; });
    return found == processes.end() ? nullptr : &*found;
}

// Each is lost only to a launcher that has ended, and taken its pipe away, in between.
constexpr int kTurns = 10;

std::string new_timer_path(const std::string& temporary) {
    return fmt::format("{}/ddprun_timers_{}", temporary, hex_text(random_bytes<8>("the name of a pipe")));
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
    return ::fstat(pipe.get(), &own) == 0 && S_ISFIFO(own.st_mode) && own.st_uid == ::geteuid() &&
           ::lstat(path.c_str(), &there) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
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

std::variant<TimerRequest, std::string> parse_timer_request(std::string_view line) {
    if (line.size() > kMaxTimerLine)
        return wrong_line(fmt::format("it is longer than {} bytes", kMaxTimerLine), line);
    const auto object = parse_json_object(line, kMaxTimerDepth, true);
    if (!object) return wrong_line("it is no JSON object", line);
    int version = 0;
    if (!take_member<JsonRules>(*object, "version", version) || version != kTimerVersion)
        return wrong_line(fmt::format("its version is not {}", kTimerVersion), line);
    TimerRequest request;
    if (!take_member<JsonRules>(*object, "pid", request.pid) || request.pid <= 0)
        return wrong_line("its pid is no process's", line);
    if (!take_member<JsonRules>(*object, "scope_id", request.scope))
        return wrong_line("its scope_id is no text", line);
    const auto expires = seconds_in(*object);
    if (!expires) return wrong_line("its expiration_time is no number", line);
    request.expires = *expires;
    if (!take_member<JsonRules>(*object, "signal", request.signal) || request.signal > kMaxSignal)
        return wrong_line("its signal is none", line);
    return request;
}

void TimerLines::push(std::string_view bytes, const std::function<void(std::string_view)>& take) {
    while (!bytes.empty()) {
        const std::size_t end = bytes.find('\n');
        const std::string_view piece = bytes.substr(0, end);
        bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
        if (!passes_over_) {
            // One byte more than is allowed tells that it is too long.
            begun_.append(piece.substr(0, kMaxTimerLine + 1 - begun_.size()));
            passes_over_ = begun_.size() > kMaxTimerLine;
            if (passes_over_) take(begun_);
        }
        if (end == std::string_view::npos) return;
        if (!passes_over_) take(begun_);
        passes_over_ = false;
        begun_.clear();
    }
}

bool TimerTable::set(const TimerRequest& request, std::uint64_t start_time, TimePoint now, double unix_s) {
    const auto length = length_of(request.expires, unix_s);
    const Timer timer{start_time, now + length, request.signal, length};
    const std::pair key{request.pid, request.scope};
    if (const auto known = timers_.find(key); known != timers_.end()) {
        known->second = timer;
        return true;
    }
    if (timers_.size() >= kMaxTimers) return false;
    timers_.emplace(key, timer);
    return true;
}

std::optional<TimerTable::TimePoint> TimerTable::next() const {
    std::optional<TimePoint> first;
    for (const auto& [key, timer] : timers_) first = std::min(first.value_or(timer.due), timer.due);
    return first;
}

std::vector<ExpiredTimer> TimerTable::take_expired(TimePoint now) {
    std::map<pid_t, std::vector<std::pair<TimePoint, ExpiredTimer>>> found;
    std::erase_if(timers_, [&](const auto& entry) {
        const auto& [key, timer] = entry;
        if (timer.due > now) return false;
        found[key.first].push_back(
            {timer.due, {key.first, timer.start_time, key.second, timer.signal, timer.length}});
        return true;
    });
    std::vector<ExpiredTimer> expired;
    for (auto& [pid, timers] : found) {
        std::stable_sort(timers.begin(), timers.end(),
                         [](const auto& one, const auto& other) { return one.first < other.first; });
        for (auto& [due, timer] : timers) {
            expired.push_back(std::move(timer));
            if (expired.back().signal <= 0) continue;
            std::erase_if(timers_,
                          [&](const auto& entry) { return entry.first.first == expired.back().pid; });
            break;
        }
    }
    return expired;
}

void TimerTable::forget(const std::function<bool(pid_t, std::uint64_t)>& is_gone) {
    std::erase_if(timers_,
                  [&](const auto& entry) { return is_gone(entry.first.first, entry.second.start_time); });
}

void TimerTable::shift(std::chrono::steady_clock::duration time) {
    for (auto& [key, timer] : timers_) timer.due += time;
}

std::string to_text(const ExpiredTimer& timer) {
    // The client's own time until its line was read is part of no timer.
    const double hundredths = std::round(Seconds(timer.length).count() * 100);
    return fmt::format("'{}' of {:g} s", harmless_line(timer.scope, kMaxScopeShown), hundredths / 100);
}

std::optional<pid_t> owner_of(pid_t pid, const std::vector<pid_t>& workers,
                              const std::vector<ProcessStat>& processes) {
    const auto is_worker = [&workers](pid_t one) {
        return std::find(workers.begin(), workers.end(), one) != workers.end();
    };
    const ProcessStat* named = process_of(pid, processes);
    if (named == nullptr) return std::nullopt;
    // A table that was read while numbers were given anew may hold a circle.
    std::size_t steps = 0;
    for (const ProcessStat* process = named; process != nullptr && steps <= processes.size(); ++steps) {
        if (is_worker(process->pid)) return process->pid;
        process = process_of(process->parent, processes);
    }
    return is_worker(named->process_group) ? std::optional(named->process_group) : std::nullopt;
}

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
    // Cleaners of temporary files (systemd-tmpfiles) leave a pipe alone that has this bit, however long no
    // worker has set a timer.
    ::fchmod(pipe.get(), 0600 | S_ISVTX);
    path_ = path;
    pipe_ = above_standard_streams(std::move(pipe));
}

// Somebody may have put something else there meanwhile.
TimerPipe::~TimerPipe() {
    if (pipe_ && is_at(path_, pipe_)) ::unlink(path_.c_str());
}

namespace {

// One turn takes so many of the pipe's bytes: all that a pipe holds.
constexpr std::size_t kTimerBytesAtOnce = 64 * 1024;

// Says why a process of this worker was sent the timer's signal, in words that begin with "its".
std::string cause_text(const ExpiredTimer& timer, pid_t worker) {
    const std::string whose = timer.pid == worker ? "" : fmt::format(" of its process {}", timer.pid);
    return fmt::format("its watchdog timer {}{} expired, and ddprun sent {}", to_text(timer), whose,
                       signal_text(timer.signal));
}

// It watches one round's workers, on the agent's thread.
class RoundWatchdog {
  public:
    RoundWatchdog(AgentControls& agent, int round)
        : agent_(agent),
          round_(round),
          pipe_(agent.options().features.of<WatchdogOptions>().place.value(),
                temporary_folder(agent.options().environment)),
          reader_(agent.executor(), copy_of(pipe_.descriptor())),
          timer_(agent.executor()) {
        if (pipe_.is_elsewhere())
            warn(fmt::format("{} is another launcher's, so the timers of these workers go by '{}'",
                             kTimerFileVariable, path()));
        await_requests();
    }

    const std::string& path() const { return pipe_.path(); }

    // The workers stand still, and their timers with them, until thaw().
    void freeze() {
        if (!frozen_) frozen_ = Clock::now();
        arm();
    }
    void thaw() {
        if (frozen_) table_.shift(Clock::now() - *frozen_);
        frozen_.reset();
        arm();
    }
    // The workers are told to end, for which they have their grace: no timer ends them from here on. What
    // they say is still taken.
    void rest() {
        rests_ = true;
        arm();
    }

    // The cause_text() of the first timer that has ended a process of this worker; empty if none has.
    std::string cause_of(pid_t worker) const {
        const auto cause = causes_.find(worker);
        return cause == causes_.end() ? std::string() : cause->second;
    }

  private:
    void warn(const std::string& text) { agent_.say(LogLevel::warn, text); }

    void await_requests() {
        reader_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                           alive_.guard([this](const boost::system::error_code& error) {
                               if (error) return;
                               read_requests();
                               arm();
                               await_requests();
                           }));
    }

    void read_requests() {
        std::string bytes(kTimerBytesAtOnce, '\0');
        const ssize_t count = ::read(pipe_.descriptor(), bytes.data(), bytes.size());
        if (count <= 0) return;
        lines_.push(std::string_view(bytes).substr(0, static_cast<std::size_t>(count)),
                    [this](std::string_view line) { take(line); });
    }

    void take(std::string_view line) {
        const auto parsed = parse_timer_request(line);
        if (const auto* why = std::get_if<std::string>(&parsed)) return pass_over(*why);
        const auto& request = std::get<TimerRequest>(parsed);
        if (request.is_release()) return table_.release(request.pid, request.scope);
        set(request);
    }

    void set(const TimerRequest& request) {
        const auto process = read_process_stat(request.pid);
        if (!process) return pass_over(fmt::format("there is no process {} here", request.pid));
        const auto try_it = [&] {
            const std::chrono::duration<double> unix_time =
                std::chrono::system_clock::now().time_since_epoch();
            return table_.set(request, process->start_time, Clock::now(), unix_time.count());
        };
        if (try_it()) return;
        table_.forget([](pid_t pid, std::uint64_t start_time) { return !is_there(pid, start_time); });
        if (!try_it()) pass_over(fmt::format("there are {} timers already", kMaxTimers));
    }

    // The first one is told of only.
    void pass_over(const std::string& why) {
        if (std::exchange(has_passed_over_, true)) return;
        warn(fmt::format(
            "a line for the workers' timers in '{}' is passed over, as others like it will be: {}", path(),
            why));
    }

    void arm() {
        timer_.cancel();
        const auto next = table_.next();
        if (!next || frozen_ || rests_) return;
        timer_.expires_at(*next);
        timer_.async_wait(alive_.guard([this](const boost::system::error_code& cancelled) {
            if (!cancelled && !frozen_ && !rests_) look();
        }));
    }

    void look() {
        // A timer may be taken back by what is in the pipe.
        read_requests();
        const auto expired = table_.take_expired(Clock::now());
        if (!expired.empty()) {
            const auto processes = read_own_processes().value_or(std::vector<ProcessStat>());
            for (const ExpiredTimer& timer : expired) end(timer, processes);
        }
        arm();
    }

    void end(const ExpiredTimer& timer, const std::vector<ProcessStat>& processes) {
        // A process that has ended needs nothing more, whoever has its number now.
        if (!is_there(timer.pid, timer.start_time)) return;
        std::vector<WorkerStatus> running = agent_.status().workers;
        std::erase_if(running, [](const WorkerStatus& worker) { return worker.exit_code.has_value(); });
        std::vector<pid_t> pids;
        for (const WorkerStatus& worker : running) pids.push_back(worker.pid);
        const auto worker = owner_of(timer.pid, pids, processes);
        tell(timer, worker, running);
        if (timer.signal <= 0) return;
        if (!worker) {
            return warn(fmt::format(
                "the timer {} of process {} expired, which is none of this node's workers: it is sent nothing",
                to_text(timer), timer.pid));
        }
        causes_.emplace(*worker, cause_text(timer, *worker));
        const auto process = std::find_if(processes.begin(), processes.end(),
                                          [&](const ProcessStat& one) { return one.pid == timer.pid; });
        signal_process(*process, timer.signal);
    }

    void tell(const ExpiredTimer& timer, std::optional<pid_t> worker,
              const std::vector<WorkerStatus>& running) {
        TimerExpired news{
            .round = round_, .pid = timer.pid, .scope = timer.scope, .length_ms = timer.length.count()};
        for (const WorkerStatus& status : running) {
            if (worker != status.pid) continue;
            news.rank = status.rank;
            news.local_rank = status.local_rank;
            news.signal = std::max(timer.signal, 0);
        }
        agent_.tell(news);
        // The end of a worker itself is told of anyway.
        if (news.signal > 0 && worker != timer.pid)
            warn(fmt::format("rank {}: {}", news.rank, cause_text(timer, *worker)));
    }

    AgentControls& agent_;
    const int round_;
    TimerPipe pipe_;
    boost::asio::posix::stream_descriptor reader_;
    boost::asio::steady_timer timer_;
    TimerLines lines_;
    TimerTable table_;
    std::map<pid_t, std::string> causes_;  // by worker
    std::optional<TimerTable::TimePoint> frozen_;
    bool rests_ = false;
    bool has_passed_over_ = false;
    Alive alive_;
};

bool stops_workers(AgentState state) {
    return state == AgentState::stopping || state == AgentState::stopping_alone ||
           state == AgentState::stopping_leaderless;
}

class WatchdogFeature final : public Feature {
  public:
    void began(AgentControls& agent) override { agent_ = &agent; }
    void round_begins(const RoundReady& place, RoundAdditions& added) override {
        watchdog_.emplace(*agent_, place.round);
        added.over[kTimerFileVariable] = watchdog_->path();
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
    AgentControls* agent_ = nullptr;
    std::optional<RoundWatchdog> watchdog_;  // while there are workers
};

}  // namespace

std::unique_ptr<Feature> make_watchdog(const FeatureInputs&) { return std::make_unique<WatchdogFeature>(); }

std::optional<LateVariables> late_timer_variables(const LaunchOptions& options) {
    const auto& place = options.features.of<WatchdogOptions>().place;
    if (!place) return std::nullopt;
    const std::string when = place->empty()
                                 ? "a pipe made at the start"
                                 : fmt::format("{}, or a new pipe where another launcher reads that one",
                                               harmless_line(std::filesystem::absolute(*place).string()));
    return LateVariables{when, {.over = {{kTimerFileVariable, "late"}}}};
}

}  // namespace launch
}  // namespace ddprun
