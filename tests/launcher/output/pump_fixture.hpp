// An agent in small around one OutputPump: real workers (output_stub), two consoles. For the launcher's
// tests.
#pragma once

#include <sys/types.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "launcher/output/output_pump.hpp"
#include "launcher/process/local_runner.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

// Both ends of a console; workers and pump have `writer`.
struct ConsoleEnds {
    OwnedDescriptor reader;
    OwnedDescriptor writer;
};

ConsoleEnds pipe_console();

// A terminal of 100 columns and 30 rows that passes bytes on as they are.
ConsoleEnds terminal_console();

// Reads a console with a thread of its own; nothing is read before the first call of a function.
class ConsoleReader {
  public:
    explicit ConsoleReader(OwnedDescriptor fd);
    ~ConsoleReader();

    void read_on();

    // Everything up to the end of the console, which comes when its last writer has closed it.
    std::string all();

    // Waits until this text has come.
    void await(const std::string& text);

  private:
    void run();

    OwnedDescriptor fd_;
    std::mutex mutex_;
    std::condition_variable condition_;
    bool reading_ = false;
    bool ended_ = false;
    std::string text_;
    std::thread thread_;
};

// The plan of correct options.
OutputPlan plan_of(const OutputOptions& options);

// Ranks are local ranks plus 100, the role is `trainer`, the host `node7`, the run id `job`.
class PumpRun {
  public:
    // Without `temporary_folder` it has one of its own.
    PumpRun(const OutputOptions& options, ConsoleEnds to_out, ConsoleEnds to_err, LineWatcher on_line = {},
            const std::string& temporary_folder = {});
    explicit PumpRun(const OutputOptions& options = {}, LineWatcher on_line = {})
        : PumpRun(options, pipe_console(), pipe_console(), std::move(on_line)) {}

    void begin_round(int attempt) {
        pump_->begin_round({"job", 0, attempt, "trainer", "node7", "job-1", 3, is_alone});
    }

    // Starts output_stub with these modes.
    pid_t start(int local_rank, std::vector<std::string> modes);
    void kill(pid_t worker);

    void run_until_gone(int count);
    void run_until_finished();
    std::vector<std::string> last_lines(int local_rank);
    KeptPiece read_kept(const KeptQuestion& question);
    void drain(std::chrono::milliseconds patience = OutputPump::kConsoleTimeout);

    // Stops the pump; the consoles end.
    void close();

    // Waits until every worker is finished and everything was shown, then closes.
    void end();

    OutputPump& pump() { return *pump_; }
    const std::filesystem::path& temporary() const { return temporary_.path(); }

  private:
    TemporaryFolder temporary_;

  public:
    ConsoleReader out;
    ConsoleReader err;
    std::vector<std::string> notices;
    std::vector<std::string> losses;
    std::map<int, std::string> error_files;
    bool is_alone = true;                // from the next round on
    std::vector<RunFolder> run_folders;  // as they were made; for after close()
    int gone = 0;                        // workers whose process group is gone

  private:
    // Behind the readers, so that they are closed before somebody waits for the end.
    OwnedDescriptor out_writer_;
    OwnedDescriptor err_writer_;
    boost::asio::io_context context_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    std::deque<CallingObserver> observers_;
    LocalRunner runner_;
    std::optional<OutputPump> pump_;
    int unfinished_ = 0;
};

inline std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE(file);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::filesystem::path folder_of(const std::string& error_file) {
    return std::filesystem::path(error_file).parent_path();
}

// What of the text begins with `prefix`, without it.
inline std::string lines_with(const std::string& text, const std::string& prefix) {
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind(prefix, 0) == 0) found += line.substr(prefix.size()) + "\n";
    }
    return found;
}

inline OutputOptions teed() {
    OutputOptions options;
    options.tee = "3";
    return options;
}

}  // namespace ddprun
