#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/hang_guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace ddprun {
void require(bool condition, const char* what) {
    if (!condition) throw std::runtime_error(what);
}

std::optional<std::string> LineReader::line() {
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    for (;;) {
        const auto newline = buffer_.find('\n');
        if (newline != std::string::npos) {
            std::string line = buffer_.substr(0, newline);
            buffer_.erase(0, newline + 1);
            return line;
        }
        pollfd event{fd_, POLLIN, 0};
        const auto left = deadline - std::chrono::steady_clock::now();
        const int ready =
            ::poll(&event, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
        if (ready < 0 && errno == EINTR) continue;
        require(ready > 0, "hang guard: no line came");
        char bytes[4096];
        const ssize_t count = ::read(fd_, bytes, sizeof bytes);
        require(count >= 0, "cannot read from a worker");
        if (count == 0) return std::nullopt;
        buffer_.append(bytes, static_cast<std::size_t>(count));
    }
}

std::vector<std::string> LineReader::rest() {
    std::vector<std::string> lines;
    while (auto next = line()) lines.push_back(*next);
    return lines;
}

StdoutToPipe::StdoutToPipe() {
    std::fflush(stdout);
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
    reader_ = ends[0];
    saved_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    require(saved_ >= 0 && ::dup2(ends[1], STDOUT_FILENO) >= 0, "dup2");
    ::close(ends[1]);
}

StdoutToPipe::~StdoutToPipe() {
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
    if (reader_ >= 0) ::close(reader_);
}

int StdoutToPipe::take_reader() { return std::exchange(reader_, -1); }

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
    std::string name = (parent / "ddprun-test-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "mkdtemp");
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(const std::string& name, const std::string& text, int mode) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path) << text;
    require(::chmod(path.c_str(), static_cast<mode_t>(mode)) == 0, "chmod");
    return path.string();
}

WorkerSpec stub_spec(std::vector<std::string> modes) {
    WorkerSpec spec;
    spec.argv = std::move(modes);
    spec.argv.insert(spec.argv.begin(), DDPRUN_WORKER_STUB);
    spec.environment = current_environment();
    return spec;
}

void run_until(boost::asio::io_context& context, const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kHangGuard;
    while (!condition()) {
        require(std::chrono::steady_clock::now() < deadline, "hang guard: the condition never held");
        context.restart();
        context.run_one_until(deadline);
    }
}

StubRun::StubRun(const WorkerSpec& spec) {
    StdoutToPipe pipe;
    auto result = runner_.start(spec, observer_);
    if (auto* failure = std::get_if<StartFailure>(&result)) throw std::runtime_error(failure->text);
    pid_ = std::get<Started>(result).pid;
    out_.emplace(pipe.take_reader());
}

ExitStatus StubRun::wait() {
    run_until(context_, [this] { return gone_; });
    return status_.value();
}

bool has_no_children() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace ddprun
