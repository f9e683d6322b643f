#include "launcher/events/event_file.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun::inline launch {

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

}  // namespace ddprun::inline launch
