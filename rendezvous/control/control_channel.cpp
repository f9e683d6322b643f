#include "rendezvous/control/control_channel.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <deque>
#include <exception>
#include <mutex>
#include <optional>

namespace ddprun::inline job {

namespace {

namespace asio = boost::asio;

class LocalEnd;

// The two ends share this. One that is closed gets nothing any more: its executor may be gone.
class LocalLine {
  public:
    void attach(int side, LocalEnd* end) {
        const std::lock_guard lock(mutex_);
        ends_[side] = end;
    }
    // Nothing stands for the end of the conversation.
    void post_to(int side, std::optional<ControlMessage> message);

  private:
    std::mutex mutex_;
    LocalEnd* ends_[2] = {};
};

class LocalEnd final : public ControlChannel, public std::enable_shared_from_this<LocalEnd> {
  public:
    LocalEnd(asio::any_io_executor executor, std::shared_ptr<LocalLine> line, int side)
        : executor_(std::move(executor)),
          event_(executor_, asio::steady_timer::time_point::max()),
          line_(std::move(line)),
          side_(side) {}
    ~LocalEnd() override { close(); }

    asio::awaitable<bool> run(std::function<void(const ControlMessage&)> on_message) override {
        auto self = shared_from_this();
        on_message_ = std::move(on_message);
        hand_over();
        boost::system::error_code cancelled;
        if (is_open_) co_await event_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        on_message_ = nullptr;
        if (trouble_) std::rethrow_exception(std::exchange(trouble_, nullptr));
        co_return was_closed_there_;
    }

    void send(const ControlMessage& message, bool close_after) override {
        if (!is_open_ || has_said_all_) return;
        line_->post_to(1 - side_, message);
        has_said_all_ = close_after;
        if (close_after) line_->post_to(1 - side_, std::nullopt);
    }

    void send_ends(const SharedEnds& ends, const SharedFrames&) override {
        for (const RankEnds& message : *ends) send(message, false);
    }

    bool all_arrived() override { return true; }
    void hear_no_more() override {}
    void limit_silence(std::chrono::milliseconds) override {}

    void close() override {
        if (!std::exchange(is_open_, false)) return;
        line_->attach(side_, nullptr);
        line_->post_to(1 - side_, std::nullopt);
        event_.cancel();
    }

    const asio::any_io_executor& executor() const { return executor_; }
    void take(std::optional<ControlMessage> message) {
        arrived_.push_back(std::move(message));
        hand_over();
    }

  private:
    // At once, and not by waking run(): what came by a socket meanwhile would overtake it.
    void hand_over() {
        while (is_open_ && on_message_ && !arrived_.empty()) {
            const std::optional<ControlMessage> next = std::move(arrived_.front());
            arrived_.pop_front();
            was_closed_there_ = !next;
            if (!next) return close();
            try {
                on_message_(*next);
            } catch (...) {
                trouble_ = std::current_exception();
                return close();
            }
        }
    }

    asio::any_io_executor executor_;
    asio::steady_timer event_;  // never expires; cancelled when the conversation is over
    std::shared_ptr<LocalLine> line_;
    int side_;
    bool is_open_ = true;
    bool has_said_all_ = false;
    bool was_closed_there_ = false;
    std::function<void(const ControlMessage&)> on_message_;  // while run() waits
    std::exception_ptr trouble_;                             // what it has thrown
    std::deque<std::optional<ControlMessage>> arrived_;
};

void LocalLine::post_to(int side, std::optional<ControlMessage> message) {
    const std::lock_guard lock(mutex_);
    LocalEnd* const end = ends_[side];
    if (end == nullptr) return;
    asio::post(end->executor(), [weak = end->weak_from_this(), message = std::move(message)]() mutable {
        if (const auto there = weak.lock()) there->take(std::move(message));
    });
}

}  // namespace

std::pair<std::shared_ptr<ControlChannel>, std::shared_ptr<ControlChannel>> make_local_channel(
    const asio::any_io_executor& one, const asio::any_io_executor& other) {
    const auto line = std::make_shared<LocalLine>();
    const auto first = std::make_shared<LocalEnd>(one, line, 0);
    const auto second = std::make_shared<LocalEnd>(other, line, 1);
    line->attach(0, first.get());
    line->attach(1, second.get());
    return {first, second};
}

}  // namespace ddprun::inline job
