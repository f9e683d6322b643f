// OutputPump: takes what the workers of this node print and brings it to the console and to their log files,
// whole lines at a time, in order and complete.
//
// Has one thread of its own, since a console that takes nothing (a paused terminal, a full pipe) must stop
// neither supervision nor the agent's heartbeat: then the workers' pipes fill and the workers wait, nobody
// else. A console that was closed is no error; files are still written. No signal is ever handled there.
//
// What a stream passes on: line_splitter.hpp (carriage returns), console_text.hpp (what stands on one line).
// Unfinished lines are shown on a terminal and in files after kUpdateInterval, elsewhere when they or the
// stream end.
//
// Made and called by the agent on its thread, after the guardian was started (nothing may fork without exec
// while the pump's pipes are open). Callbacks come from the agent's executor. Life:
//
//   begin_round → (open, start the worker, let the WorkerStreams go)* → (last_lines? finish)* → … → drain →
//   the agent's report → stop
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/output/log_folder.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/output/output_route.hpp"
#include "launcher/process/worker_spec.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {

class PumpLoop;

// What the round is called in prefixes and folders.
struct RoundIdentity {
    std::string run_id;
    int attempt = 0;  // numbers the folder; a new number for every round keeps every round's files
    std::string role = "default";
    std::string host;
};

// What open() makes for one worker: its ends of the streams. They are put into its WorkerSpec and closed
// (this object destroyed) once it was started, or the streams would never end.
struct WorkerStreams {
    OwnedDescriptor out;  // none: nobody wants to see it
    OwnedDescriptor err;
    std::string error_file;  // for TORCHELASTIC_ERROR_FILE; empty for --log-dir /dev/null

    StreamTarget standard_output() const;
    StreamTarget standard_error() const;
};

struct OutputPumpSettings {
    int out_fd = 1;
    int err_fd = 2;
    std::string temporary_folder = "/tmp";  // TMPDIR, if it is set
};

class OutputPump {
  public:
    // How long finish() waits for the end of streams that a process outside the worker's group holds open.
    static constexpr std::chrono::milliseconds kDrainPatience{500};
    // How long drain() waits for a console that takes nothing at all: long enough to read a page in a pager;
    // and how long when the user is in a hurry.
    static constexpr std::chrono::milliseconds kConsolePatience{60'000};
    static constexpr std::chrono::milliseconds kShortConsolePatience{1000};
    // How long stop() waits for the thread to end.
    static constexpr std::chrono::milliseconds kStopPatience{2000};
    // Two updates a second of a line that has not ended.
    static constexpr std::chrono::milliseconds kUpdateInterval{500};
    // What the thread may take longer than it should (a file server that hangs) before the agent goes on
    // without it.
    static constexpr std::chrono::milliseconds kAnswerPatience{1000};

    // `on_notice` is told, once for each file, that something is being dropped.
    OutputPump(const boost::asio::any_io_executor& executor, OutputPlan plan, OutputPumpSettings settings,
               std::function<void(const std::string&)> on_notice);
    OutputPump(const OutputPump&) = delete;
    OutputPump& operator=(const OutputPump&) = delete;
    ~OutputPump();

    // Throws system_error if a folder that is needed cannot be made.
    void begin_round(const RoundIdentity& identity);

    // The round's folder if somebody wants logs; else empty, though there may be error files.
    std::string log_folder() const { return plan_.wants_logs() ? round_folder_ : std::string(); }

    // Throws system_error if there are no descriptors left.
    WorkerStreams open(int local_rank, int rank);

    // Reads what the worker has left in its pipes and gives the last lines of its stderr, oldest first (at
    // most kMaxLastLines, each at most kMaxLastLineText bytes, otherwise as printed). For the moment a worker
    // has ended; also good after finish(), until the local rank is opened again.
    void last_lines(int local_rank, std::function<void(std::vector<std::string>)> done);

    // Called when the worker's process group is gone. `done` comes when everything it printed was taken over,
    // at the latest after kDrainPatience: of a stream still open only what is in it then is taken, whenever
    // the console allows it.
    void finish(int local_rank, std::function<void()> done);

    // Shows the last lines of the worker's stderr if its stderr does not go to the console: the failing
    // rank's are always shown. For a round that is followed by another, since only the last one is reported.
    void replay_stderr(int local_rank);

    // A line of the launcher's own, on stderr and never inside another line.
    void announce(std::string line);

    // The terminal's size has changed (SIGWINCH): the workers' terminals follow.
    void window_changed();

    // At the end of the job: `done` comes when everything is on the console, or when the console has taken
    // nothing for so long.
    void drain(std::function<void()> done, std::chrono::milliseconds patience = kConsolePatience);

    // Ends the thread at once, whatever the consoles did not take yet; what is in the workers' pipes is still
    // brought to their files. Returns what was lost over all, one line for each file and console; normally
    // nothing. The destructor does it too.
    std::vector<std::string> stop();

  private:
    class Gate;

    OutputRouteParts route_parts(int local_rank, int rank, OutputStream stream, const std::string& folder);
    void tell(const std::string& notice);

    boost::asio::any_io_executor executor_;
    OutputPlan plan_;
    OutputPumpSettings settings_;
    std::function<void(const std::string&)> on_notice_;
    LogFolder folder_;
    std::shared_ptr<Gate> gate_;
    std::shared_ptr<PumpLoop> loop_;

    RoundIdentity round_;
    std::string round_folder_;  // empty if there are no files
    std::shared_ptr<LogFile> filtered_out_;
    std::shared_ptr<LogFile> filtered_err_;
    int next_stream_ = 0;
    int pipes_ = 0;  // of this round
    bool stopped_ = false;
};

}  // namespace ddprun
