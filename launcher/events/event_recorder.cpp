#include "launcher/events/event_recorder.hpp"

#include <unistd.h>

#include <utility>

#include "launcher/wall_clock.hpp"

namespace ddprun::inline launch {

EventRecorder::EventRecorder(EventOrigin origin, AppendedFile file,
                             std::chrono::steady_clock::time_point start,
                             std::function<void(const std::string&)> on_trouble)
    : story_(std::move(origin)), file_(std::move(file)), start_(start), on_trouble_(std::move(on_trouble)) {}

EventRecorder::~EventRecorder() {
    if (const auto trouble = file_.close()) on_trouble_(*trouble);
}

EventTime EventRecorder::at(std::chrono::steady_clock::time_point when) const {
    using std::chrono::duration_cast;
    using std::chrono::milliseconds;
    const auto ago = duration_cast<milliseconds>(std::chrono::steady_clock::now() - when);
    return {unix_time_now_ms() - ago.count(), duration_cast<milliseconds>(when - start_).count()};
}

void EventRecorder::write(std::string_view lines) {
    if (!lines.empty()) file_.append(lines);
    if (const auto trouble = file_.take_trouble()) on_trouble_(*trouble);
}

void EventRecorder::did(std::string_view name, const boost::json::object& facts,
                        std::chrono::steady_clock::time_point when) {
    write(story_.did(name, facts, at(when)));
}

void EventRecorder::forget() {
    has_ended_ = true;
    file_.forget();
}

void EventRecorder::fails(int exit_code, std::string_view reason) {
    if (!std::exchange(has_ended_, true)) write(story_.fails(exit_code, reason, now()));
}

void EventRecorder::began(const boost::asio::any_io_executor&, const AgentControls& controls) {
    file_.start();
    controls_ = controls;
    // That of --detach is another one than has read the options.
    story_.run_by(::getpid());
    write(story_.begins(now()));
}

void EventRecorder::heard(const ControlMessage& message) {
    if (!has_ended_) write(story_.hears(message, now()));
}

void EventRecorder::learnt(const AgentNews& news) {
    if (!has_ended_) write(story_.learns(news, now()));
}

void EventRecorder::workers_run(const RoundReady& round) {
    write(story_.workers_run(round, controls_.status().workers.size(), now()));
}

// What the agent does after that, saying goodbye, is no part of the job any more.
std::optional<std::string> EventRecorder::ended(const JobResult& result) {
    has_ended_ = true;
    file_.append(story_.ends(result, now()));
    return file_.close();
}

}  // namespace ddprun::inline launch
