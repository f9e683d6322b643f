// PumpLoop is the thread inside OutputPump, which runs one io_context. The thread waits for streams,
// consoles, commands and times, and for nothing else: a console that takes nothing is not written to.
//
// Everything but start(), post() and wait_for_end() runs on the thread; commands are closures that do. The
// thread keeps the PumpLoop alive itself, so that an agent can leave one behind that hangs in a dead file
// server.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/kept_readers.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/output/output_route.hpp"

namespace ddprun {
inline namespace launch {

// kMaxAnnouncements: lines of the launcher that may wait for a blocked console. Later ones are thrown away.
inline constexpr std::size_t kMaxAnnouncements = 1000;
// kDrainTimeout: how long finish() waits for the end of streams that a process outside the worker's group
// holds open.
inline constexpr std::chrono::milliseconds kDrainTimeout{500};
// kUpdateInterval: how often an unfinished line is updated, twice a second.
inline constexpr std::chrono::milliseconds kUpdateInterval{500};

struct PumpStream {
    boost::asio::posix::stream_descriptor reader;  // closed when the stream has ended
    OutputRoute route;
    std::shared_ptr<std::atomic<std::uint64_t>> printed;  // bytes; the agent looks, too
    bool is_awaited = false;
    std::optional<std::size_t> remaining = {};  // bytes still to be taken of a stream that does not end
};

// A PumpWorker is kept alive by what waits for one of its streams or timers.
struct PumpWorker {
    PumpWorker(boost::asio::io_context& context, int rank)
        : local_rank(rank), update_timer(context), finish_timer(context) {}
    bool has_ended() const;

    int local_rank;
    std::vector<PumpStream> streams;  // stdout, if it is wanted; last of all stderr
    boost::asio::steady_timer update_timer;
    bool is_update_due = false;
    boost::asio::steady_timer finish_timer;
    std::function<void()> on_finished;  // while finish() waits
};

class PumpLoop : public std::enable_shared_from_this<PumpLoop> {
  public:
    using Worker = std::shared_ptr<PumpWorker>;

    PumpLoop(int out_fd, int err_fd, std::function<void(std::string)> on_notice);

    // start and the functions below it may be called by any thread. The consoles themselves are constant;
    // what is in them is the thread's.
    void start();
    void post(std::function<void()> command);
    bool wait_for_end(std::chrono::milliseconds timeout);
    OutputConsole& console(OutputStream stream);
    KeptOutput& kept() { return kept_; }
    RaisedRanks& raised() { return raised_; }
    boost::asio::io_context& context() { return context_; }

    // add and the functions below it are called by the loop's thread.
    void add(const Worker& worker);
    std::vector<std::string> last_lines(int local_rank);
    void read_errors();
    void finish(int local_rank, std::function<void()> done);
    KeptReaders& kept_readers() { return kept_readers_; }
    void replay_stderr(int local_rank);
    void announce(const std::string& line);
    void pass(const std::string& line);
    void tell(std::string notice) { on_notice_(std::move(notice)); }
    void window_changed();
    void drain(std::function<void()> done, std::chrono::milliseconds timeout);
    void end();

    // Returns, after the end, what was lost, a line for each file and console.
    std::vector<std::string> losses() const;

  private:
    void await_input(const Worker& worker, PumpStream& stream);
    void await_drained();
    void read_some(PumpStream& stream);
    void close(PumpStream& stream);
    void give_up_waiting(PumpStream& stream);
    void look_at(const Worker& worker);
    void update(const Worker& worker);
    void finish(const Worker& worker, std::function<void()> done);
    void finished(PumpWorker& worker);
    void settle_soon();
    void show_and_wait();
    void say_launcher_lines();
    bool all_shown() const;
    void drained();
    void give_up_blocked_consoles();
    std::uint64_t progress() const;
    void note_loss(const LogFile* file);
    KeptPiece read_kept(const KeptQuestion& asked, std::size_t most);
    Worker find(int local_rank) const;

    boost::asio::io_context context_{1};
    std::function<void(std::string)> on_notice_;
    std::deque<OutputConsole> consoles_;  // stdout, and stderr if it is not the same thing
    std::promise<void> ended_;
    std::future<void> end_ = ended_.get_future();

    std::unique_ptr<char[]> buffer_;
    std::vector<Worker> workers_;
    std::vector<std::string> announcements_;
    std::size_t announcements_lost_ = 0;
    std::function<void()> on_drained_;
    std::chrono::milliseconds drain_timeout_{0};
    boost::asio::steady_timer drain_timer_{context_};
    std::uint64_t progress_seen_ = 0;
    std::uint64_t bytes_read_ = 0;
    KeptOutput kept_;
    RaisedRanks raised_;
    KeptReaders kept_readers_{
        context_.get_executor(),
        [this](const KeptQuestion& asked, std::size_t most) { return read_kept(asked, most); },
        [this] { return kept_.end(); }};
    std::map<std::string, std::string> losses_;  // a line for each file or console
    bool is_settling_ = false;
    bool has_held_back_ = false;  // a stream was held back for the sake of its console
};

}  // namespace launch
}  // namespace ddprun
