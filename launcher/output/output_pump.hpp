// OutputPump takes what the workers of this node print and brings it to the console and to their log files,
// whole lines at a time, in order and complete.
//
// The pump has one thread of its own, since a console that takes nothing (a paused terminal, a full pipe)
// must stop neither supervision nor the agent's heartbeat. Then only the workers wait, once their pipes are
// full. A console that was closed is no error; files are still written. The pump's thread never handles
// signals.
//
// output_lines.hpp says what a stream passes on (carriage returns), and what stands on one line of the
// console. Unfinished lines are shown on a terminal and in files twice a second, elsewhere when they or the
// stream end.
//
// Made and called by the agent on its thread, after the guardian was started (nothing may fork without exec
// while the pump's pipes are open). Callbacks come from the agent's executor. Life:
//
//   begin_round → (open, start the worker, let the WorkerStreams go)* → (last_lines? finish)* → … → drain →
//   the agent's report → stop
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/kept_readers.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/output/raised_ranks.hpp"
#include "launcher/process/process_runner.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

class PumpLoop;
struct OutputRouteParts;
struct PumpWorker;

// RoundIdentity names the round in prefixes and folders.
struct RoundIdentity {
    std::string run_id;
    std::int64_t start_unix_s = 0;  // when the job began
    int round = 0;  // numbers the folder; a new number for every round keeps every round's files
    std::string role = "default";
    std::string host;
    std::string job_id;
    int node_rank = 0;
    bool is_alone = true;  // the job never has another node
};

// WorkerStreams is what open() makes for a worker: the worker's ends of the streams. The agent puts them into
// the WorkerSpec, and destroys this object once the worker was started, or the streams would never end.
struct WorkerStreams {
    OwnedDescriptor out;  // none: the stream goes nowhere
    OwnedDescriptor err;
    std::string error_file;  // goes into TORCHELASTIC_ERROR_FILE; empty for --log-dir /dev/null

    StreamTarget standard_output() const;
    StreamTarget standard_error() const;
};

// LineWatcher is called with each line that a worker prints, without its end. `rank` is the worker's, and the
// text is valid during the call.
//
// The pump's thread calls it, after the log file has the line, and before the console: it must be quick,
// since all output of the node waits meanwhile, must not throw, and must not wait for the agent's thread.
// After OutputPump::stop() there are no calls. A line is told when it has ended, in the state in which it is
// written to files: of what carriage returns have begun anew, the last. Of a line longer than
// LineSplitter::kMaxLine the first so many bytes are told, perhaps before it has ended, and the rest is not.
// A stream that its console holds back is told of when it is read.
using LineWatcher = std::function<void(int rank, OutputStream stream, std::string_view text)>;

struct OutputPumpSettings {
    int out_fd = 1;
    int err_fd = 2;
    std::string temporary_folder = "/tmp";  // TMPDIR, if it is set
    RunFolderWork in_run_folder;            // called by the pump's thread; empty: nothing
    LineWatcher on_line;                    // empty: streams that go nowhere are not read
};

class OutputPump {
  public:
    // kConsoleTimeout: how long drain() waits for a console that takes nothing at all, enough to read a page
    // in a pager. kShortConsoleTimeout is for a user in a hurry.
    static constexpr std::chrono::milliseconds kConsoleTimeout{60'000};
    static constexpr std::chrono::milliseconds kShortConsoleTimeout{1000};
    // kStopTimeout: how long stop() waits for the thread to end.
    static constexpr std::chrono::milliseconds kStopTimeout{2000};
    // kAnswerTimeout: how much longer than it should the thread may take (a file server that hangs) before
    // the agent goes on without it.
    static constexpr std::chrono::milliseconds kAnswerTimeout{1000};

    // Makes the pump. `on_notice` is told, once for each file, that something is being dropped.
    OutputPump(const boost::asio::any_io_executor& executor, OutputPlan plan, OutputPumpSettings settings,
               std::function<void(const std::string&)> on_notice);
    OutputPump(const OutputPump&) = delete;
    OutputPump& operator=(const OutputPump&) = delete;
    ~OutputPump();

    // Begins a round. A folder that has vanished since the last round is made anew. Where none can be made
    // the round has no files, what should be in them goes to the console, and a notice says so. Throws
    // system_error instead if the user has named the place and no round before had files there.
    void begin_round(const RoundIdentity& identity);

    // Returns the round's folder if logs are wanted; else empty, though there may be error files.
    std::string log_folder() const { return plan_.wants_logs() ? round_folder_ : std::string(); }

    // Returns what LogFolder::temporary() does.
    std::string temporary_folder() const { return folder_.temporary(); }

    // Opens the streams of `workers` workers from these ranks on, by local rank. Throws system_error if there
    // are no descriptors left.
    std::vector<WorkerStreams> open(int local_rank, int rank, int workers = 1);

    // Reads what the worker has left in its pipes and gives the last lines of its stderr, oldest first (at
    // most kMaxLastLines, each at most kMaxLastLineText bytes, otherwise as printed). Called when a worker
    // has ended, or after finish(), until the local rank is opened again.
    void last_lines(int local_rank, std::function<void(std::vector<std::string>)> done);

    // Reads lines that the workers of this node have printed. `done` comes from the executor, unless the pump
    // ends before.
    void read_kept(const KeptQuestion& question, KeptReaders::Done done);

    // Reads what the workers have left in the pipes of their stderr, those that run as well. `done` comes
    // when that was read.
    void read_errors(std::function<void()> done);

    // Returns the ranks of this round that have printed what they raised, in the last so much time, the first
    // one first, as far as that was read.
    std::vector<RaisedRank> raised_within(std::chrono::milliseconds time) const;

    // Returns how many bytes workers with this local rank have printed since the launcher began, as far as
    // that was read; of streams that go nowhere nothing is.
    std::uint64_t printed_by(int local_rank) const;

    // Takes what a worker has left to print, once its process group is gone. `done` comes when everything was
    // taken, at the latest after kDrainTimeout. Of a stream that is still open then, only the bytes in it at
    // that moment are taken, as soon as the console allows it.
    void finish(int local_rank, std::function<void()> done);

    // Shows the last lines of the worker's stderr if its stderr does not go to the console: the failing
    // rank's are always shown. For a round that is followed by another, since only the last one is reported.
    void replay_stderr(int local_rank);

    // Shows a line of the launcher's own, on stderr and never inside another line.
    void announce(std::string line);

    // Shows, on terminals only, the launcher's passing line on stderr, in place of the last one; empty: none.
    // The passing line goes away before anything else is shown there.
    void pass(std::string line);

    // Runs on the pump's thread what may hang; its result is told as a notice.
    void run(std::function<std::optional<std::string>()> work);

    // Gives the workers' terminals the size of the launcher's terminal, which has changed (SIGWINCH).
    void window_changed();

    // Brings out what is left at the end of the job. `done` comes when everything is on the console, or when
    // the console has taken nothing for `timeout`.
    void drain(std::function<void()> done, std::chrono::milliseconds timeout = kConsoleTimeout);

    // Ends the thread at once, whatever the consoles did not take yet. What is in the workers' pipes is still
    // brought to their files. Returns what was lost over all, one line for each file and console; normally
    // nothing. Called by the destructor, too.
    std::vector<std::string> stop();

    // Returns true if the thread was stopped and has not ended.
    bool hangs() const { return hangs_; }

    // Returns, after stop(), true if a worker's line on the console of stderr has not ended: what is written
    // there next begins with a newline.
    bool leaves_open_line() const;

  private:
    class Gate;
    struct Answer;

    WorkerStreams open_one(int local_rank, int rank, std::shared_ptr<PumpWorker>& worker);
    std::weak_ptr<Answer> await_answer(std::chrono::milliseconds timeout,
                                       std::function<void(std::vector<std::string>)> done);
    std::string worker_folder(int local_rank);
    void do_without_files(const std::string& why);
    OutputRouteParts route_parts(int local_rank, int rank, OutputStream stream, const std::string& folder);

    boost::asio::any_io_executor executor_;
    OutputPlan plan_;
    OutputPumpSettings settings_;
    std::function<void(const std::string&)> on_notice_;
    LogFolder folder_;
    std::shared_ptr<Gate> gate_;
    std::shared_ptr<PumpLoop> loop_;

    RoundIdentity round_;
    std::string round_folder_;  // empty if there are no files
    bool has_had_files_ = false;
    std::shared_ptr<LogFile> filtered_out_;
    std::shared_ptr<LogFile> filtered_err_;
    std::map<int, std::shared_ptr<std::atomic<std::uint64_t>>> printed_;  // by local rank
    int next_stream_ = 0;
    int pipes_ = 0;  // in this round
    bool stopped_ = false;
    bool hangs_ = false;
};

}  // namespace launch
}  // namespace ddprun
