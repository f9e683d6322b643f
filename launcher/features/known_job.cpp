#include "launcher/features/known_job.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/inotify.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/features/job_streams.hpp"
#include "launcher/folder_claim.hpp"
#include "launcher/jobs/detach.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/jobs/job_record.hpp"
#include "launcher/jobs/jobs_place.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/process/process_table.hpp"
#include "launcher/secret_text.hpp"
#include "launcher/view/http_server.hpp"
#include "launcher/view/job_socket.hpp"
#include "launcher/view/job_view.hpp"
#include "launcher/view/node_questions.hpp"
#include "launcher/wall_clock.hpp"
#include "launcher/watch/shared_looks.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kResultRoom = 64 * 1024;
// Some more than the result says of one.
constexpr std::size_t kRoomOfRank = 512;
// What the record says more once the job has a name; some more than the longest file name.
constexpr std::size_t kRoomOfNames = 4096;

// kUnknownTime: a job in the foreground that ends sooner is asked for by nobody, and costs nothing more.
constexpr std::chrono::milliseconds kUnknownTime{250};

OwnedDescriptor need_file(int fd, const std::string& what) {
    if (fd < 0) fail_errno(errno, "cannot detach: " + what);
    return OwnedDescriptor(fd);
}

// write_new_file does not wait for the disk: the record of a job in the foreground ends with its launcher.
boost::system::error_code write_new_file(const std::filesystem::path& path, std::string_view text) {
    const OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    const ssize_t written = file ? ::write(file.get(), text.data(), text.size()) : -1;
    if (written == static_cast<ssize_t>(text.size())) return {};
    return {written < 0 ? errno : ENOSPC, boost::system::system_category()};
}

// Whoever removes a folder has removed all of it by then.
constexpr std::chrono::seconds kCleaningTime{1};

// lead_output_to has the launcher's output go on in this file, behind the last kMostOutputKept bytes of what
// it has said: they are copied while the job waits. Returns how many bytes before are lost. Who follows the
// output finds all of them under its name.
off_t lead_output_to(const std::filesystem::path& output) {
    const OwnedDescriptor before = need_file(::open("/proc/self/fd/1", O_RDONLY | O_CLOEXEC), "its output");
    const std::filesystem::path copied = output.parent_path() / ".output";
    ::unlink(copied.c_str());
    const OwnedDescriptor file =
        need_file(::open(copied.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), copied.string());
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

SignalEffect effect_of(int signal, const LaunchOptions& options) {
    const auto& ending = options.terminating_signals;
    const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
    if (ends && signal == SIGHUP && options.hangup_ignored)
        return {.refusal = "SIGHUP was ignored when the launcher was started, and stays so"};
    if (ends || options.forwarded_signals.contains(signal)) return {.ends_job = ends};
    return {.refusal = signal_text(signal) +
                       " is neither in the job's --signals-to-handle nor in its --forward or --requeue-on"};
}

std::shared_ptr<SharedLooks> shared_looks_of(const LaunchOptions& options) {
    const auto& shared = options.features.of<SharedLooksOptions>().shared;
    return shared ? shared : std::make_shared<SharedLooks>();
}

class KnownJob final : public Feature {
  public:
    explicit KnownJob(const FeatureInputs& inputs)
        : command_(masked_words(inputs.command)),
          detached_(inputs.options.features.of<KnownJobOptions>().detached),
          shared_(shared_looks_of(inputs.options)) {}
    KnownJob(const KnownJob&) = delete;
    KnownJob& operator=(const KnownJob&) = delete;
    ~KnownJob() override {
        if (detached_) remove_job_folder(detached_->folder);
        if (!is_kept_) remove_job_folder(folder_);
    }

    bool wants_all_ranks() const override { return is_detached() || starts_detached(); }
    void began(AgentControls& agent) override;
    void heard(const ControlMessage& message) override {
        if (shared_->questions) shared_->questions->hear(message);
        if (streams_) streams_->hear(message);
    }
    void learnt(const AgentNews& news) override {
        if (streams_) streams_->learn(news);
        if (shared_->looks) shared_->looks->learn(news);
        learn_verdict(news);
    }
    bool answer(const Question& question, const SayAnswer& say) override;
    void workers_run(const RoundReady& place) override;
    std::optional<std::string> ended(const JobResult& result) override;
    void agent_leaves() override {
        agent_ = nullptr;
        pause_.reset();
        if (streams_) streams_->end(exit_code_);
        streams_.reset();
        shared_->end();
        callers_.clear();
    }

  private:
    bool is_detached() const { return room_.has_value(); }
    bool starts_detached() const { return detached_ && !detached_->folder.empty(); }
    std::string shown_id() const { return is_known_ ? folder_.filename().string() : ""; }
    void record_start();
    [[noreturn]] void fail_record(const boost::system::error_code& error) const;
    void write_record() const;
    void begin_in_foreground(const std::string& job_id);
    void publish(const std::string& job_id);
    void renumber();
    void serve();
    void view(const AgentControls& agent, std::function<void(const JobView&)> done);
    void gather(const AgentControls& agent);
    void learn_verdict(const AgentNews& news);
    std::optional<VerdictView> verdict() const;
    void watch();
    void make_anew();

    const std::vector<std::string> command_;
    const std::shared_ptr<DetachedStart> detached_;  // until the agent begins
    std::filesystem::path folder_;                   // empty: there is none
    FolderClaim claim_;
    JobRecord record_;
    std::optional<ReservedFile> record_room_;
    std::optional<ReservedFile> room_;  // of a detached job's result
    std::size_t room_size_ = 0;         // once it is known of how many ranks the result tells
    OwnedDescriptor parent_;
    std::optional<boost::asio::steady_timer> pause_;            // until a job in the foreground is known
    const std::shared_ptr<SharedLooks> shared_;                 // begun while there is an agent
    std::optional<JobStreams> streams_;                         // likewise
    std::optional<HangFound> hang_;                             // in this round, as long as it goes on
    std::optional<int> exit_code_;                              // the job's
    std::vector<std::function<void(const JobView&)>> callers_;  // for whom nobody is asked yet
    bool is_gathering_ = false;
    AgentControls* agent_ = nullptr;  // until the job is over
    int node_ = 0;                    // the number of this node in the current round …
    int nodes_ = 1;                   // … which has so many
    bool is_known_ = false;           // the folder has its final name
    bool is_kept_ = false;            // it stays when the launcher has ended
};

void KnownJob::began(AgentControls& agent) {
    agent_ = &agent;
    shared_->begin(agent);
    streams_.emplace(agent, *shared_->questions);
    if (!starts_detached()) return;
    folder_ = std::exchange(detached_->folder, {});
    room_ = std::move(detached_->room);
    parent_ = std::move(detached_->parent);
    claim_ = FolderClaim(folder_);
    record_start();
    write_record();
    record_room_.emplace(folder_ / kRecordRoomName, to_json(record_).size() + kRoomOfNames);
    serve();
}

void KnownJob::record_start() {
    const LaunchOptions& options = agent_->options();
    record_.entry_name = options.entry_name;
    record_.command = command_;
    std::error_code unknown;
    record_.directory = std::filesystem::current_path(unknown).string();
    record_.node_rank = options.node_rank;
    record_.nnodes = options.nnodes;
    record_.workers = static_cast<int>(options.workers.size());
    record_.pid = ::getpid();
    const auto self = read_process_stat(record_.pid);
    if (!self) fail(Errc::refused, "/proc does not show this process");
    record_.start_time = self->start_time;
    const auto since = std::chrono::steady_clock::now() - options.start;
    record_.start_unix_ms =
        unix_time_now_ms() - std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

void KnownJob::fail_record(const boost::system::error_code& error) const {
    const std::filesystem::path path = folder_ / kRecordName;
    throw Error(error, fmt::format("cannot write '{}': {}", path.string(), error.message()));
}

void KnownJob::write_record() const {
    if (const auto error = replace_file(folder_ / kRecordName, to_json(record_))) fail_record(error);
}

void KnownJob::serve() {
    serve_unix(agent_->executor(), listen_job_socket(folder_),
               {.status = [agent = agent_] { return agent->status(); },
                .job = [this, agent = agent_](auto done) { view(*agent, std::move(done)); },
                .stream = [this](const StreamTerms& terms) { return streams_->open(terms); },
                .stacks = [this](const StacksTerms& terms,
                                 auto done) { shared_->looks->take(terms, shown_id(), std::move(done)); },
                .effect_of = [agent = agent_](int signal) { return effect_of(signal, agent->options()); },
                .deliver = [agent = agent_](int signal) { agent->tell(SignalSent{signal}); }});
}

// Callers that come while the nodes are asked share the next question, so that there is one at a time, and
// each hears what the nodes have said since it came.
void KnownJob::view(const AgentControls& agent, std::function<void(const JobView&)> done) {
    callers_.push_back(std::move(done));
    if (!is_gathering_) gather(agent);
}

void KnownJob::gather(const AgentControls& agent) {
    const auto shown = [this, &agent, callers = std::exchange(callers_, {})](
                           const std::vector<NodeAnswer>& others, const std::string& why_none) {
        const JobNames names{.id = shown_id(),
                             .name = record_.entry_name,
                             .run_id = agent.options().run_id,
                             .started_unix_ms = record_.start_unix_ms};
        const JobView view = job_view(names, agent.status(), others, why_none, verdict());
        for (const auto& done : callers) done(view);
        is_gathering_ = false;
        if (!callers_.empty()) gather(agent);
    };
    is_gathering_ = true;
    if (agent.status().group_world_size == 1) return shown({}, {});
    shared_->questions->ask(std::string(kStatusQuestion), {}, shown);
}

bool KnownJob::answer(const Question& question, const SayAnswer& say) {
    if (agent_ == nullptr) return false;
    if (question.kind != kStatusQuestion)
        return streams_->answer(question, say) || shared_->looks->answer(question, say);
    say({.text = to_json(agent_->status(), verdict())});
    return true;
}

void KnownJob::learn_verdict(const AgentNews& news) {
    if (const auto* found = std::get_if<HangFound>(&news)) hang_ = *found;
    if (std::holds_alternative<HangOver>(news)) hang_.reset();
}

std::optional<VerdictView> KnownJob::verdict() const {
    if (!hang_) return std::nullopt;
    return verdict_view(hang_->verdict, hang_->since_unix_ms, unix_time_now_ms());
}

void KnownJob::watch() {
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

void KnownJob::make_anew() {
    const auto lacks = [this](std::string_view name) {
        return ::access((folder_ / name).c_str(), F_OK) != 0;
    };
    if (!lacks(kRecordName) && !lacks(kOutputName) && !lacks(kControlName) && !lacks(kResultRoomName)) return;
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
        if (lacks(kResultRoomName)) {
            room_ = reserve_result(folder_);
            room_->grow(room_size_);
        }
        if (lacks(kControlName)) serve();
        write_record();
        agent_->say(LogLevel::warn,
                    what + ", which was made anew" +
                        (lost > 0 ? fmt::format("; of its output the first {} bytes are lost", lost) : ""));
    } catch (const std::exception& error) {
        agent_->say(LogLevel::warn, fmt::format("{}, and ddpctl finds the job no more (process {}): {}", what,
                                                record_.pid, error.what()));
    }
}

void KnownJob::begin_in_foreground(const std::string& job_id) try {
    const auto jobs = make_jobs_folder({current_environment(), ::geteuid()});
    remove_left_over(jobs);
    folder_ = make_starting_folder(jobs);
    claim_ = FolderClaim(folder_);
    record_start();
    serve();
    publish(job_id);
} catch (const std::exception& error) {
    const Environment environment = current_environment();
    const std::string* named = find_variable(environment, kJobsVariable);
    const bool is_asked = named != nullptr && !named->empty();
    agent_->say(is_asked ? LogLevel::warn : LogLevel::debug,
                fmt::format("ddpctl does not know of this job: {}", error.what()));
}

void KnownJob::publish(const std::string& job_id) {
    record_.job_id = job_id;
    record_.node_rank = node_;
    record_.nnodes = nodes_;
    record_.id = job_name(agent_->options().known_as, job_id);
    // The workers' output may have filled the disk by now.
    const std::string text = to_json(record_);
    const auto error = record_room_
                           ? record_room_->become(folder_ / kRecordRoomName, folder_ / kRecordName, text)
                           : write_new_file(folder_ / kRecordName, text);
    if (error) fail_record(error);
    folder_ = publish_job_folder(folder_, record_.id);
    is_known_ = true;
}

// Nodes have come or gone since.
void KnownJob::renumber() try {
    if (record_.node_rank == node_ && record_.nnodes == nodes_) return;
    record_.node_rank = node_;
    record_.nnodes = nodes_;
    write_record();
} catch (const std::exception& error) {
    agent_->say(LogLevel::debug,
                fmt::format("ddpctl list shows another number of this node: {}", error.what()));
}

void KnownJob::workers_run(const RoundReady& place) {
    hang_.reset();
    if (streams_) streams_->happened();
    if (agent_ == nullptr) return;
    node_ = place.group_rank;
    nodes_ = place.group_world_size;
    if (is_known_) return renumber();
    if (pause_) return;
    if (is_detached()) {
        publish(place.job_id);
        is_kept_ = true;
        watch();
        room_size_ = kResultRoom + kRoomOfRank * static_cast<std::size_t>(place.world_size);
        room_->grow(room_size_);
        prune_jobs(folder_.parent_path());
        return tell_started(std::move(parent_), folder_.filename().string());
    }
    pause_.emplace(agent_->executor(), kUnknownTime);
    pause_->async_wait([this, job_id = place.job_id](const boost::system::error_code& cancelled) {
        if (!cancelled && agent_ != nullptr) begin_in_foreground(job_id);
    });
}

std::optional<std::string> KnownJob::ended(const JobResult& result) {
    if (is_kept_) make_anew();
    agent_ = nullptr;
    exit_code_ = result.exit_code;
    if (!is_detached()) return std::nullopt;
    const std::filesystem::path path = folder_ / kResultName;
    const auto error = room_->become(folder_ / kResultRoomName, path, to_json(result));
    if (!error) return std::nullopt;
    return fmt::format("'{}' cannot be written: {}", path.string(), error.message());
}

}  // namespace

ReservedFile reserve_result(const std::filesystem::path& folder) {
    return {folder / kResultRoomName, kResultRoom};
}

std::optional<std::string> open_known_job(FeatureOptions& options, const EarlyFacts&) {
    options.of<KnownJobOptions>().detached = std::make_shared<DetachedStart>();
    options.of<SharedLooksOptions>().shared = std::make_shared<SharedLooks>();
    return std::nullopt;
}

std::unique_ptr<Feature> make_known_job(const FeatureInputs& inputs) {
    return std::make_unique<KnownJob>(inputs);
}

}  // namespace launch
}  // namespace ddprun
