#include "launcher/features/detach.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstdio>

#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/view/http_server.hpp"
#include "launcher/view/job_socket.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kRelayedAtOnce = 16 * 1024;

OwnedDescriptor need(int fd, const std::string& what) {
    if (fd < 0) fail_errno(errno, "cannot detach: " + what);
    return OwnedDescriptor(fd);
}

sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
    return set;
}

// Reads what there is, without waiting for more. False at the end of a pipe.
bool read_available(int fd, std::string& text) {
    std::array<char, kRelayedAtOnce> buffer;
    for (;;) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count < 0;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

void show(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

// tell_started() sends this: how much was in the output when the workers ran, and the id.
struct StartNotice {
    std::size_t output_size = 0;
    std::string id;
};

// Returns nothing while the line is not whole.
std::optional<StartNotice> parse_notice(std::string_view line) {
    const std::size_t blank = line.find(' ');
    const auto size = whole_number<std::size_t>(line.substr(0, blank));
    if (!size || !line.ends_with('\n')) return std::nullopt;
    return StartNotice{*size, std::string(line.substr(blank + 1, line.size() - blank - 2))};
}

// The parent lives here: from the fork to its exit code.
class Starter {
  public:
    Starter(pid_t launcher, OwnedDescriptor started, OwnedDescriptor output, OwnedDescriptor changes,
            OwnedDescriptor signals)
        : launcher_(launcher),
          started_(std::move(started)),
          output_(std::move(output)),
          changes_(std::move(changes)),
          signals_(std::move(signals)) {}

    int wait() {
        while (!status_) {
            take_output();
            take_notice();
            // A parent that was told to end the job stays to see it end.
            if (notice_ && !signalled_) return print_id();
            show_lines(text_.size());
            wait_for_event();
            take_signals();
        }
        block_signals();
        take_output();
        take_notice();
        return notice_ && !signalled_ ? print_id() : failed();
    }

  private:
    void wait_for_event() {
        std::array<pollfd, 3> events{{{signals_.get(), POLLIN, 0},
                                      {changes_.get(), POLLIN, 0},
                                      {notice_ || closed_ ? -1 : started_.get(), POLLIN, 0}}};
        if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR)
            fail_errno(errno, "cannot wait for the launcher");
        // A launcher that has closed it without a notice ends: that is the event to wait for.
        closed_ = closed_ || (events[2].revents & (POLLHUP | POLLIN)) == POLLHUP;
    }

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
            if (info.ssi_signo == SIGCHLD) continue;
            signalled_ = true;
            ::kill(launcher_, static_cast<int>(info.ssi_signo));
        }
        int status = 0;
        if (::waitpid(launcher_, &status, WNOHANG) == launcher_) status_ = decode_wait_status(status);
    }

    void take_output() {
        std::string ignored;
        read_available(changes_.get(), ignored);
        read_available(output_.get(), text_);
    }

    // Comes after take_output(): while there is no notice, all that was taken was said before it.
    void take_notice() {
        read_available(started_.get(), notice_text_);
        if (!notice_) notice_ = parse_notice(notice_text_);
    }

    // The launcher's own lines in the next `size` bytes, up to the first line that is a worker's.
    void show_lines(std::size_t size) {
        const std::string_view all = std::string_view(text_).substr(0, size);
        std::string_view rest = all;
        std::size_t newline = 0;
        while (rest.starts_with(kLauncherMark) && (newline = rest.find('\n')) != std::string_view::npos)
            rest.remove_prefix(newline + 1);
        const std::size_t shown = all.size() - rest.size();
        show(all.substr(0, shown));
        text_.erase(0, shown);
        shown_ += shown;
    }

    int print_id() {
        block_signals();
        if (notice_->output_size > shown_) show_lines(notice_->output_size - shown_);
        const std::string line = notice_->id + "\n";
        if (std::fputs(line.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
        show(fmt::format("{}the job runs, but its id cannot be written to stdout: {}", kLauncherMark, line));
        return kExitSystem;
    }

    int failed() {
        show(text_);
        // A disk that is full does not take what the launcher has to say.
        if (shown_ + text_.size() == 0 && shell_code(*status_) != 0 &&
            std::holds_alternative<Exited>(*status_))
            show(fmt::format(
                "{}the launcher ended with {} before the workers ran, and nothing of what it said could be "
                "written to its output; is that disk full? (see DDPRUN_JOBS_DIR)\n",
                kLauncherMark, to_string(*status_)));
        if (std::holds_alternative<Signaled>(*status_))
            show(fmt::format("{}the launcher ended by {} before the workers ran\n", kLauncherMark,
                             to_string(*status_)));
        return shell_code(*status_);
    }

    pid_t launcher_;
    OwnedDescriptor started_;
    OwnedDescriptor output_;
    OwnedDescriptor changes_;
    OwnedDescriptor signals_;
    std::optional<ExitStatus> status_;
    std::optional<StartNotice> notice_;
    std::string notice_text_;  // what came of the notice
    std::string text_;         // of the output, what was not shown yet
    std::size_t shown_ = 0;    // bytes of the output before that
    bool signalled_ = false;
    bool closed_ = false;
};

void become_launcher(const sigset_t& mask, int output) {
    ::setsid();
    const OwnedDescriptor null = need(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
    if (::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
        ::dup2(output, STDERR_FILENO) < 0) {
        fail_errno(errno, "cannot detach: dup2");
    }
    // A lock that the starting script holds by a descriptor of its own, or a pipe, is not the job's.
    close_inherited_from(STDERR_FILENO + 1);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

constexpr const char* kRecordName = "job.json";
constexpr const char* kOutputName = "output";
constexpr const char* kRoomName = ".result";
constexpr std::size_t kResultRoom = 64 * 1024;
// Some more than the result says of one.
constexpr std::size_t kRoomOfRank = 512;
constexpr const char* kRecordRoomName = ".job";
// What the record says more once the job has a name; some more than the longest file name.
constexpr std::size_t kRoomOfNames = 4096;

// The errno; 0 if there is room.
int take_room(int file, std::size_t bytes) {
    int error_number = 0;
    do {
        error_number = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
    } while (error_number == EINTR);
    return error_number;
}

// Whoever removes a folder has removed all of it by then.
constexpr std::chrono::seconds kCleaningTime{1};

// lead_output_to has the launcher's output go on in this file, behind the last kMostOutputKept bytes of what it has said: they are
// copied while the job waits. Returns how many bytes before are lost. Who follows the output finds all of them under its name.
off_t lead_output_to(const std::filesystem::path& output) {
    const OwnedDescriptor before = need(::open("/proc/self/fd/1", O_RDONLY | O_CLOEXEC), "its output");
    const std::filesystem::path copied = output.parent_path() / ".output";
    ::unlink(copied.c_str());
    const OwnedDescriptor file =
        need(::open(copied.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), copied.string());
    const off_t lost = std::max<off_t>(::lseek(before.get(), 0, SEEK_END) - kMostOutputKept, 0);
    ssize_t count = 0;
    for (off_t at = lost; (count = ::sendfile(file.get(), before.get(), &at, kMostOutputKept)) > 0;) {
    }
    // The kernel copies into no file that is appended to, which this one is from now on.
    if (count < 0 || ::rename(copied.c_str(), output.c_str()) != 0 ||
        ::fcntl(file.get(), F_SETFL, O_APPEND) != 0 || ::dup2(file.get(), STDOUT_FILENO) < 0 ||
        ::dup2(file.get(), STDERR_FILENO) < 0)
        fail_errno(errno, "cannot write to " + output.string());
    return lost;
}

boost::system::error_code reserved_error() { return {errno, boost::system::system_category()}; }

}  // namespace

Detached detach(const std::filesystem::path& output) {
    OwnedDescriptor writer = need(
        ::open(output.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600), output.string());
    OwnedDescriptor reader = need(::open(output.c_str(), O_RDONLY | O_CLOEXEC), output.string());
    OwnedDescriptor changes = need(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "inotify");
    if (::inotify_add_watch(changes.get(), output.c_str(), IN_MODIFY) < 0)
        fail_errno(errno, "cannot detach: no watch on " + output.string());
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail_errno(errno, "cannot detach: pipe");
    OwnedDescriptor started(pipe[0]);
    OwnedDescriptor starter(pipe[1]);
    const sigset_t watched = watched_signals();
    OwnedDescriptor signals = need(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");

    // The parent may have ignored it, and then no end of a child would be told.
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &watched, &before);
    const pid_t launcher = ::fork();
    if (launcher < 0) {
        const int error_number = errno;
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        fail_errno(error_number, "cannot detach: fork");
    }
    if (launcher == 0) {
        become_launcher(before, writer.get());
        return {.exit_code = {}, .starter = std::move(starter)};
    }
    starter.reset();
    writer.reset();
    Starter parent(launcher, std::move(started), std::move(reader), std::move(changes), std::move(signals));
    return {.exit_code = parent.wait(), .starter = OwnedDescriptor()};
}

void tell_started(OwnedDescriptor starter, const std::string& id) {
    struct stat output {};
    if (::fstat(STDERR_FILENO, &output) != 0) output.st_size = 0;
    const std::string line = fmt::format("{} {}\n", output.st_size, id);
    [[maybe_unused]] const ssize_t ignored = ::write(starter.get(), line.data(), line.size());
}

ReservedFile reserve_result(const std::filesystem::path& folder) { return {folder / kRoomName, kResultRoom}; }

DetachedJob::DetachedJob(std::filesystem::path folder, const LaunchOptions& options,
                         std::vector<std::string> command, ReservedFile room, OwnedDescriptor starter)
    : folder_(std::move(folder)),
      claim_(folder_),
      options_(options),
      room_(std::move(room)),
      starter_(std::move(starter)) {
    record_.entry_name = options.entry_name;
    record_.command = masked_words(std::move(command));
    std::error_code unknown;
    record_.directory = std::filesystem::current_path(unknown).string();
    record_.node_rank = options.node_rank;
    record_.nnodes = options.nnodes;
    record_.workers = static_cast<int>(options.workers.size());
    record_.pid = ::getpid();
    const auto self = read_process_stat(record_.pid);
    if (!self) fail(Errc::refused, "cannot detach: /proc does not show this process");
    record_.start_time = self->start_time;
    record_.start_unix_ms = unix_time_now_ms();
    const std::filesystem::path path = folder_ / kRecordName;
    const std::string text = to_json(record_);
    if (const auto error = replace_file(path, text)) fail_record(error);
    record_room_.emplace(folder_ / kRecordRoomName, text.size() + kRoomOfNames);
}

DetachedJob::~DetachedJob() {
    if (!published_) remove_starting_folder(folder_);
}

void DetachedJob::began(AgentControls& agent) {
    agent_ = &agent;
    serve();
}

void DetachedJob::serve() {
    serve_unix(agent_->executor(), listen_job_socket(folder_),
               {.status = [agent = agent_] { return agent->status(); },
                .effect_of = [this](int signal) { return effect_of(signal); },
                .deliver = [agent = agent_](int signal) { agent->tell(SignalSent{signal}); }});
}

// Not all cleaners of temporary files look at locks. The handlers own the watch, which ends with the agent.
void DetachedJob::watch() {
    OwnedDescriptor changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!changes || ::inotify_add_watch(changes.get(), folder_.c_str(), IN_DELETE | IN_DELETE_SELF) < 0)
        return;
    using Stream = boost::asio::posix::stream_descriptor;
    auto stream = std::make_shared<Stream>(agent_->executor(), changes.release());
    stream->async_wait(Stream::wait_read, [this, stream](const boost::system::error_code& error) {
        if (error) return;
        auto pause = std::make_shared<boost::asio::steady_timer>(stream->get_executor(), kCleaningTime);
        pause->async_wait([this, pause](const boost::system::error_code& cancelled) {
            if (cancelled || agent_ == nullptr) return;
            make_anew();
            watch();
        });
    });
}

void DetachedJob::make_anew() {
    const auto lacks = [this](const char* name) { return ::access((folder_ / name).c_str(), F_OK) != 0; };
    if (!lacks(kRecordName) && !lacks(kOutputName) && !lacks(kControlName) && !lacks(kRoomName)) return;
    const std::string what = fmt::format("something has removed '{}', the job's folder", folder_.string());
    off_t lost = 0;
    try {
        const std::filesystem::path jobs = folder_.parent_path();
        std::filesystem::create_directories(jobs.parent_path());
        for (const std::filesystem::path& folder : {jobs, folder_}) {
            ::mkdir(folder.c_str(), 0700);
            is_private_folder(folder);
        }
        claim_ = FolderClaim(folder_);
        if (lacks(kOutputName)) lost = lead_output_to(folder_ / kOutputName);
        if (lacks(kRoomName)) {
            room_ = reserve_result(folder_);
            room_.grow(room_size_);
        }
        if (lacks(kControlName)) serve();
        if (const auto error = replace_file(folder_ / kRecordName, to_json(record_))) fail_record(error);
        agent_->say(LogLevel::warn,
                    what + ", which was made anew" +
                        (lost > 0 ? fmt::format("; of its output the first {} bytes are lost", lost) : ""));
    } catch (const std::exception& error) {
        agent_->say(LogLevel::warn, fmt::format("{}, and ddpctl finds the job no more (process {}): {}", what,
                                                record_.pid, error.what()));
    }
}

void DetachedJob::workers_run(const RoundReady& place) {
    if (published_) return;
    record_.job_id = place.job_id;
    record_.node_rank = place.group_rank;
    record_.id = job_folder_name(place.job_id, place.group_rank, options_.nnodes);
    // The workers' output may have filled the disk by now.
    if (const auto error =
            record_room_->become(folder_ / kRecordRoomName, folder_ / kRecordName, to_json(record_)))
        fail_record(error);
    folder_ = publish_job_folder(folder_, record_.id);
    published_ = true;
    room_size_ = kResultRoom + kRoomOfRank * static_cast<std::size_t>(place.world_size);
    room_.grow(room_size_);
    watch();
    prune_jobs(folder_.parent_path());
    tell_started(std::move(starter_), record_.id);
}

std::optional<std::string> DetachedJob::ended(const JobResult& result) {
    if (published_) make_anew();
    agent_ = nullptr;
    const std::filesystem::path path = folder_ / "result.json";
    const auto error = room_.become(folder_ / kRoomName, path, to_json(result));
    if (!error) return std::nullopt;
    return fmt::format("'{}' cannot be written: {}", path.string(), error.message());
}

void DetachedJob::fail_record(const boost::system::error_code& error) const {
    const std::filesystem::path path = folder_ / kRecordName;
    throw Error(error, fmt::format("cannot write '{}': {}", path.string(), error.message()));
}

SignalEffect DetachedJob::effect_of(int signal) const {
    const auto& ending = options_.terminating_signals;
    const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
    if (ends && signal == SIGHUP && options_.hangup_ignored)
        return {.refusal = "SIGHUP was ignored when the launcher was started, and stays so"};
    if (ends || options_.forwarded_signals.contains(signal)) return {.ends_job = ends};
    return {.refusal = signal_text(signal) +
                       " is neither in the job's --signals-to-handle nor in its --forward or --requeue-on"};
}

ReservedFile::ReservedFile(const std::filesystem::path& path, std::size_t bytes)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    const int error_number = file_ ? take_room(file_.get(), bytes) : errno;
    if (error_number == 0) return;
    if (file_) ::unlink(path.c_str());
    fail_errno(error_number, fmt::format("no room for {} bytes of a detached job in '{}' (see {})", bytes,
                                         path.parent_path().string(), kJobsVariable));
}

void ReservedFile::grow(std::size_t bytes) { take_room(file_.get(), bytes); }

boost::system::error_code ReservedFile::become(const std::filesystem::path& now,
                                               const std::filesystem::path& name, std::string_view text) {
    const auto size = static_cast<off_t>(text.size());
    for (off_t at = 0; !text.empty();) {
        const ssize_t count = ::pwrite(file_.get(), text.data(), text.size(), at);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return reserved_error();
        at += count;
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::ftruncate(file_.get(), size) != 0 || ::fsync(file_.get()) != 0 ||
        std::rename(now.c_str(), name.c_str()) != 0)
        return reserved_error();
    return {};
}

}  // namespace ddprun::inline launch
