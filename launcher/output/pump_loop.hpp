// PumpLoop: the thread inside OutputPump. It waits for streams, consoles, commands and times at once, and for
// nothing else: no console is written to that does not take anything.
//
// Everything but post(), start() and wait_for_end() runs on the thread; commands are closures that do. Kept
// alive by the thread itself, so that an agent can go without one that hangs in a dead file server.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/output/output_plan.hpp"
#include "launcher/output/output_route.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {

// Lines of the launcher that wait for a blocked console; later ones are thrown away.
inline constexpr std::size_t kMaxAnnouncements = 1000;

// One stream of one worker.
struct PumpStream {
    OwnedDescriptor reader;  // none: closed
    OutputRoute route;
    bool is_terminal = false;
    std::optional<std::size_t> remaining;  // what is still taken of a stream that does not end
};

struct PumpWorker {
    using TimePoint = std::chrono::steady_clock::time_point;

    int local_rank = 0;
    std::vector<PumpStream> streams;  // stdout, if anybody wants it; last of all stderr
    std::optional<TimePoint> update_due;
    std::optional<TimePoint> finish_due;
    std::function<void()> on_finished;
};

struct PumpTimes {
    std::chrono::milliseconds drain_patience;
    std::chrono::milliseconds update_interval;
};

class PumpLoop : public std::enable_shared_from_this<PumpLoop> {
  public:
    using Clock = std::chrono::steady_clock;

    PumpLoop(int out_fd, int err_fd, PumpTimes times, std::function<void(std::string)> on_notice);

    // Any thread. The consoles themselves are constant; what is in them is the thread's.
    void start();
    void post(std::function<void()> command);
    bool wait_for_end(std::chrono::milliseconds patience);
    OutputConsole& console(OutputStream stream);

    // On the thread.
    void add(PumpWorker worker);
    std::vector<std::string> last_lines(int local_rank);
    void finish(int local_rank, std::function<void()> done);
    void replay_stderr(int local_rank);
    void announce(const std::string& line);
    void window_changed();
    void drain(std::function<void()> done, std::chrono::milliseconds patience);
    void end();

    // After the end.
    std::vector<std::string> losses() const;

  private:
    void run();
    void run_commands();
    void wait();
    void settle();
    int timeout(Clock::time_point now) const;
    bool readable_now(const PumpStream& stream) const;
    void read_some(PumpStream& stream);
    void close(PumpStream& stream);
    void look_at(PumpWorker& worker, Clock::time_point now);
    void give_up_waiting(PumpStream& stream);
    void give_up_blocked_consoles();
    void say_launcher_lines();
    void look_at_drain(Clock::time_point now);
    void flush_consoles();
    bool consoles_blocked() const;
    std::uint64_t progress() const;
    void note_loss(const LogFile* file);
    void count_loss(const LogFile* file);
    PumpWorker* find(int local_rank);

    PumpTimes times_;
    std::function<void(std::string)> on_notice_;
    std::unique_ptr<OutputConsole> out_;
    std::unique_ptr<OutputConsole> own_err_;  // none if stderr is the same thing as stdout
    int out_fd_;
    int err_fd_;
    OwnedDescriptor wake_;

    std::mutex mutex_;
    std::condition_variable ended_condition_;
    std::vector<std::function<void()>> commands_;  // guarded by mutex_
    bool ended_ = false;                           // guarded by mutex_

    std::vector<char> buffer_;
    std::vector<PumpWorker> workers_;
    std::vector<std::string> announcements_;
    std::size_t announcements_lost_ = 0;
    std::function<void()> on_drained_;
    std::chrono::milliseconds drain_patience_{0};
    std::optional<Clock::time_point> drain_due_;
    std::uint64_t progress_seen_ = 0;
    std::uint64_t bytes_read_ = 0;
    std::set<std::string> noted_;
    std::map<std::string, std::string> losses_;  // by file or console, what it lost
    bool running_ = true;
};

}  // namespace ddprun
