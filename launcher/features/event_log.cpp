#include "launcher/features/event_log.hpp"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <system_error>
#include <utility>

#include "launcher/features/event_story.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/output/happenings.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {

struct EventFile::Queue {
    Queue(AppendedFile opened, std::size_t most) : file(std::move(opened)), max_bytes(most) {}

    // The first word about a loss is the only one.
    void note(const std::string& why) {
        if (!std::exchange(is_noted, true)) trouble = why;
    }

    AppendedFile file;  // the thread's, but for its name
    const std::size_t max_bytes;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::string> waiting;
    std::size_t bytes = 0;
    bool closing = false;
    bool done = false;
    bool is_noted = false;
    std::optional<std::string> trouble;
};

EventFile::EventFile(AppendedFile file, std::size_t max_waiting)
    : queue_(std::make_shared<Queue>(std::move(file), max_waiting)) {}

EventFile::~EventFile() { close(); }

void EventFile::start() {
    if (writer_.joinable()) return;
    try {
        writer_ = start_without_signals([queue = queue_] { write_all(*queue); });
    } catch (const std::system_error& error) {
        const std::lock_guard lock(queue_->mutex);
        queue_->note(queue_->file.loss(error.what()));
    }
}

void EventFile::append(std::string_view lines) {
    const std::lock_guard lock(queue_->mutex);
    for (const std::string_view line : lines_of(lines)) {
        if (queue_->closing || queue_->bytes + line.size() + 1 > queue_->max_bytes) {
            queue_->note(queue_->file.loss("more comes than it takes"));
            break;
        }
        queue_->waiting.push_back(std::string(line) + "\n");
        queue_->bytes += line.size() + 1;
    }
    queue_->changed.notify_all();
}

std::optional<std::string> EventFile::take_trouble() {
    const std::lock_guard lock(queue_->mutex);
    return std::exchange(queue_->trouble, std::nullopt);
}

std::optional<std::string> EventFile::close(std::chrono::milliseconds timeout) {
    if (std::exchange(is_closed_, true)) return take_trouble();
    start();
    if (writer_.joinable()) {
        std::unique_lock lock(queue_->mutex);
        queue_->closing = true;
        queue_->changed.notify_all();
        if (queue_->changed.wait_for(lock, timeout, [this] { return queue_->done; })) {
            lock.unlock();
            writer_.join();
        } else {
            queue_->waiting.clear();
            queue_->note(queue_->file.loss("it takes nothing any more"));
            writer_.detach();
        }
    }
    return take_trouble();
}

void EventFile::forget() {
    is_closed_ = true;
    const std::lock_guard lock(queue_->mutex);
    queue_->waiting.clear();
}

void EventFile::write_all(Queue& queue) {
    std::unique_lock lock(queue.mutex);
    for (;;) {
        queue.changed.wait(lock, [&queue] { return queue.closing || !queue.waiting.empty(); });
        if (queue.waiting.empty()) break;
        std::string line = std::move(queue.waiting.front());
        queue.waiting.pop_front();
        lock.unlock();
        const std::size_t size = line.size();
        const auto notice = queue.file.append(std::move(line));
        lock.lock();
        queue.bytes -= size;
        if (notice) queue.note(*notice);
    }
    queue.done = true;
    queue.changed.notify_all();
}

namespace {

// As many events as are kept of their lines.
constexpr std::size_t kMostWaiting = Happenings::kMost;

class EventLog final : public Feature {
  public:
    EventLog(EventOrigin origin, const FeatureInputs& inputs)
        : story_(std::move(origin)), start_(inputs.start), log_(inputs.log) {
        const EventLogOptions& own = inputs.options.features.of<EventLogOptions>();
        if (own.file) file_.emplace(std::move(*own.file));
        did("options_read", {{"version", DDPRUN_VERSION}, {"nodes", inputs.options.nnodes}},
            inputs.options_read);
        did("machine_read", {{"workers", inputs.options.workers.size()}}, Clock::now());
    }
    ~EventLog() override {
        if (!file_) return;
        if (const auto trouble = file_->close()) log_.warn(*trouble);
    }

    void began(AgentControls& agent) override {
        agent_ = &agent;
        if (file_) file_->start();
        // The process is another one than read the options, where the job is detached.
        story_.run_by(::getpid());
        note([this, time = now()] { return story_.begins(time); });
    }
    void heard(const ControlMessage& message) override {
        if (!has_ended_) note([this, message, time = now()] { return story_.hears(message, time); });
    }
    void learnt(const AgentNews& news) override {
        const auto* told = std::get_if<EventTold>(&news);
        if (told != nullptr) return told->lines.empty() ? tell_all() : void();
        if (!has_ended_) note([this, news, time = now()] { return story_.learns(news, time); });
    }
    void workers_run(const RoundReady& round) override {
        note([this, round, workers = agent_->status().workers.size(), time = now()] {
            return story_.workers_run(round, workers, time);
        });
    }
    // What the agent does after that, saying goodbye, is no part of the job any more.
    std::optional<std::string> ended(const JobResult& result) override {
        has_ended_ = true;
        // What nobody has asked for is asked for by nobody any more.
        const std::string lines = file_ || was_asked_ ? story_.ends(result, now()) : "";
        if (was_asked_) {
            tell_all();
            tell(lines);
        }
        if (!file_) return std::nullopt;
        file_->append(lines);
        return file_->close();
    }
    void agent_leaves() override { agent_ = nullptr; }
    void launch_failed(int exit_code, std::string_view reason) override {
        if (!std::exchange(has_ended_, true)) write(story_.fails(exit_code, reason, now()));
    }
    void goes_on_elsewhere() override {
        has_ended_ = true;
        if (file_) file_->forget();
    }

  private:
    using Clock = std::chrono::steady_clock;

    EventTime at(Clock::time_point when) const {
        using std::chrono::duration_cast;
        using std::chrono::milliseconds;
        const auto ago = duration_cast<milliseconds>(Clock::now() - when);
        return {unix_time_now_ms() - ago.count(), duration_cast<milliseconds>(when - start_).count()};
    }
    EventTime now() const { return at(Clock::now()); }
    void did(std::string_view name, const boost::json::object& facts, Clock::time_point when) {
        write(story_.did(name, facts, at(when)));
    }
    // Without a file an event becomes its line when somebody asks, which in most jobs nobody does.
    void note(std::function<std::string()> event) {
        waiting_.push_back(std::move(event));
        if (file_) return write(next());
        if (waiting_.size() > kMostWaiting) tell(next());
    }
    std::string next() {
        const auto event = std::move(waiting_.front());
        waiting_.pop_front();
        return event();
    }
    void tell(std::string lines) {
        if (agent_ != nullptr && !lines.empty()) agent_->tell(EventTold{std::move(lines)});
    }
    void tell_all() {
        was_asked_ = true;
        while (!waiting_.empty()) tell(next());
    }
    void write(const std::string& lines) {
        tell(lines);
        if (!file_) return;
        if (!lines.empty()) file_->append(lines);
        if (const auto trouble = file_->take_trouble()) log_.warn(*trouble);
    }

    EventStory story_;
    std::optional<EventFile> file_;
    std::deque<std::function<std::string()>> waiting_;  // in order, since each changes the story
    Clock::time_point start_;
    LauncherLog& log_;
    AgentControls* agent_ = nullptr;
    bool has_ended_ = false;
    bool was_asked_ = false;  // for the lines
};

}  // namespace

std::optional<std::string> open_event_log(FeatureOptions& options, const EarlyFacts& facts) {
    EventLogOptions& own = options.of<EventLogOptions>();
    if (own.path.empty() || facts.starts_nothing) return std::nullopt;
    auto opened = open_appended_file("--events", filled_path(own.path, facts.paths));
    if (auto* wrong = std::get_if<std::string>(&opened)) return std::move(*wrong);
    own.file = std::make_shared<AppendedFile>(std::get<AppendedFile>(std::move(opened)));
    return std::nullopt;
}

std::unique_ptr<Feature> make_event_log(const FeatureInputs& inputs) {
    const LaunchOptions& options = inputs.options;
    EventOrigin origin{.run_id = options.run_id,
                       .role = options.role,
                       .host = host_name(),
                       .entry_point = std::filesystem::path(options.entry_name).filename().string(),
                       .rdzv_backend = inputs.rdzv_backend,
                       .pid = ::getpid()};
    return std::make_unique<EventLog>(std::move(origin), inputs);
}

}  // namespace launch
}  // namespace ddprun
