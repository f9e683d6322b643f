#include "tests/launcher/output/pump_fixture.hpp"
#include "tests/support/hang_guard.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <stdexcept>

namespace ddprun {
ConsoleEnds pipe_console() {
    int fds[2];
    require(::pipe2(fds, O_CLOEXEC) == 0, "pipe");
    return {OwnedDescriptor(fds[0]), OwnedDescriptor(fds[1])};
}

ConsoleEnds terminal_console() {
    ConsoleEnds ends{OwnedDescriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), OwnedDescriptor()};
    const int master = ends.reader.get();
    require(master >= 0 && ::grantpt(master) == 0 && ::unlockpt(master) == 0, "posix_openpt");
    ends.writer.reset(::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios modes{};
    require(ends.writer.get() >= 0 && ::tcgetattr(ends.writer.get(), &modes) == 0, "tcgetattr");
    ::cfmakeraw(&modes);
    winsize size{};
    size.ws_col = 100;
    size.ws_row = 30;
    require(::tcsetattr(ends.writer.get(), TCSANOW, &modes) == 0, "tcsetattr");
    require(::ioctl(master, TIOCSWINSZ, &size) == 0, "TIOCSWINSZ");
    return ends;
}

ConsoleReader::ConsoleReader(OwnedDescriptor fd) : fd_(std::move(fd)), thread_([this] { run(); }) {}

ConsoleReader::~ConsoleReader() {
    read_on();
    thread_.join();
}

void ConsoleReader::read_on() {
    std::lock_guard lock(mutex_);
    reading_ = true;
    condition_.notify_all();
}

std::string ConsoleReader::all() {
    read_on();
    std::unique_lock lock(mutex_);
    require(condition_.wait_for(lock, kHangGuard, [this] { return ended_; }),
            "hang guard: a console has no end");
    return text_;
}

void ConsoleReader::await(const std::string& text) {
    read_on();
    std::unique_lock lock(mutex_);
    const bool came =
        condition_.wait_for(lock, kHangGuard, [&] { return text_.find(text) != std::string::npos; });
    if (!came) throw std::runtime_error("hang guard: '" + text + "' never came, but '" + text_ + "'");
}

void ConsoleReader::run() {
    {
        std::unique_lock lock(mutex_);
        condition_.wait(lock, [this] { return reading_; });
    }
    for (bool ended = false; !ended;) {
        char buffer[4096];
        // A terminal whose writers are gone gives an error.
        const ssize_t count = ::read(fd_.get(), buffer, sizeof buffer);
        ended = count <= 0;
        std::lock_guard lock(mutex_);
        if (!ended) text_.append(buffer, static_cast<std::size_t>(count));
        ended_ = ended;
        condition_.notify_all();
    }
}

OutputPlan plan_of(const OutputOptions& options) {
    auto parsed = parse_output_options(options);
    if (const auto* why = std::get_if<std::string>(&parsed)) throw std::runtime_error(*why);
    return std::get<OutputPlan>(parsed);
}

PumpRun::PumpRun(const OutputOptions& options, ConsoleEnds to_out, ConsoleEnds to_err, LineWatcher on_line,
                 const std::string& temporary_folder)
    : out(std::move(to_out.reader)),
      err(std::move(to_err.reader)),
      out_writer_(std::move(to_out.writer)),
      err_writer_(std::move(to_err.writer)),
      work_(context_.get_executor()),
      runner_(context_.get_executor()) {
    OutputPumpSettings settings;
    settings.out_fd = out_writer_.get();
    settings.err_fd = err_writer_.get();
    settings.temporary_folder = temporary_folder.empty() ? temporary_.path().string() : temporary_folder;
    settings.on_line = std::move(on_line);
    settings.in_run_folder = [this](const RunFolder& folder) {
        run_folders.push_back(folder);
        return std::nullopt;
    };
    pump_.emplace(context_.get_executor(), plan_of(options), settings,
                  [this](const std::string& text) { notices.push_back(text); });
    begin_round(0);
}

pid_t PumpRun::start(int local_rank, std::vector<std::string> modes) {
    WorkerSpec spec;
    spec.argv = std::move(modes);
    spec.argv.insert(spec.argv.begin(), DDPRUN_OUTPUT_STUB);
    spec.environment = current_environment();
    WorkerStreams streams = std::move(pump_->open(local_rank, 100 + local_rank).front());
    spec.standard_output = streams.standard_output();
    spec.standard_error = streams.standard_error();
    error_files[local_rank] = streams.error_file;
    ++unfinished_;
    CallingObserver& observer =
        observers_.emplace_back([](const ExitStatus&) {},
                                [this, local_rank] {
                                    ++gone;
                                    pump_->finish(local_rank, [this] { --unfinished_; });
                                });
    const auto result = runner_.start(spec, observer);
    if (const auto* failure = std::get_if<StartFailure>(&result)) throw std::runtime_error(failure->text);
    return std::get<Started>(result).pid;
}

void PumpRun::kill(pid_t worker) { runner_.signal_worker(worker, SIGKILL, SignalScope::group); }

void PumpRun::run_until_gone(int count) {
    run_until(context_, [this, count] { return gone == count; });
}

void PumpRun::run_until_finished() {
    run_until(context_, [this] { return unfinished_ == 0; });
}

KeptPiece PumpRun::read_kept(const KeptQuestion& question) {
    std::optional<KeptPiece> found;
    pump_->read_kept(question, [&found](KeptPiece piece) { found = std::move(piece); });
    while (!found) context_.run_one();
    return *found;
}

std::vector<std::string> PumpRun::last_lines(int local_rank) {
    std::optional<std::vector<std::string>> lines;
    pump_->last_lines(local_rank, [&](auto given) { lines = std::move(given); });
    run_until(context_, [&] { return lines.has_value(); });
    return *lines;
}

void PumpRun::drain(std::chrono::milliseconds patience) {
    bool drained = false;
    pump_->drain([&] { drained = true; }, patience);
    run_until(context_, [&] { return drained; });
}

void PumpRun::close() {
    losses = pump_->stop();
    pump_.reset();
    context_.poll();
    out_writer_.reset();
    err_writer_.reset();
}

void PumpRun::end() {
    run_until_finished();
    drain();
    close();
}

}  // namespace ddprun
