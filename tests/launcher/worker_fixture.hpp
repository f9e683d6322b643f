// Starts worker_stub through a LocalRunner and reads what it prints. For the launcher's tests.
#pragma once

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/process/local_runner.hpp"
#include "launcher/process/process_runner.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {

inline constexpr uid_t kNobody = 65534;  // another user

// A fixture's own work: throws `what` where Catch2's assertions have no place.
void require(bool condition, const char* what);

// A hang guard only: no test passes or fails by how long something takes.
// The reading end of a pipe, read line by line. What a process still holds open has no end.
class LineReader {
  public:
    explicit LineReader(int fd) : fd_(fd) {}
    LineReader(const LineReader&) = delete;
    LineReader& operator=(const LineReader&) = delete;
    ~LineReader() { ::close(fd_); }

    // The next line without its newline; nothing at the end. Throws when the hang guard ends.
    std::optional<std::string> line();

    // All lines up to the end, which comes when the last process that could write has ended.
    std::vector<std::string> rest();

  private:
    int fd_;
    std::string buffer_;
};

// While it lives, this process's stdout is the writing end of a pipe, so that what is started inherits it.
class StdoutToPipe {
  public:
    StdoutToPipe();
    StdoutToPipe(const StdoutToPipe&) = delete;
    StdoutToPipe& operator=(const StdoutToPipe&) = delete;
    ~StdoutToPipe();

    int take_reader();

  private:
    int saved_ = -1;
    int reader_ = -1;
};

// A folder of its own, removed at the end.
class TemporaryFolder {
  public:
    explicit TemporaryFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path());
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder();

    const std::filesystem::path& path() const { return path_; }

    // The path of a new file in it with this text and these permissions.
    std::string file(const std::string& name, const std::string& text, int mode = 0644) const;

  private:
    std::filesystem::path path_;
};

// Calls these for a worker. Outlives it.
struct CallingObserver final : WorkerObserver {
    using Exited = std::function<void(const ExitStatus&)>;
    using Used = std::function<void(const ResourceUse&)>;

    CallingObserver(
        Exited on_exited, std::function<void()> on_gone, Used on_used = [](const ResourceUse&) {})
        : exited(std::move(on_exited)), gone(std::move(on_gone)), used(std::move(on_used)) {}

    void worker_exited(pid_t, const ExitStatus& status) override { exited(status); }
    void worker_group_gone(pid_t) override { gone(); }
    void worker_used(pid_t, const ResourceUse& use) override { used(use); }

    Exited exited;
    std::function<void()> gone;
    Used used;
};

// A blueprint that runs worker_stub with these words, in this process's environment.
WorkerSpec stub_spec(std::vector<std::string> modes);

// Runs handlers until the condition holds; throws when the hang guard ends.
void run_until(boost::asio::io_context& context, const std::function<bool()>& condition);

// One stub under one LocalRunner.
class StubRun {
  public:
    explicit StubRun(const WorkerSpec& spec);
    explicit StubRun(std::vector<std::string> modes) : StubRun(stub_spec(std::move(modes))) {}

    pid_t pid() const { return pid_; }
    LineReader& out() { return *out_; }
    LocalRunner& runner() { return runner_; }

    // Waits for the end of the worker and of its process group.
    ExitStatus wait();

  private:
    boost::asio::io_context context_{1};
    CallingObserver observer_{[this](const ExitStatus& status) { status_ = status; },
                              [this] { gone_ = true; }};
    LocalRunner runner_{context_.get_executor()};
    std::optional<LineReader> out_;
    pid_t pid_ = 0;
    std::optional<ExitStatus> status_;
    bool gone_ = false;
};

// True if this process has no child at all, running or zombie.
bool has_no_children();

}  // namespace ddprun
