#include "rendezvous/control/control_channel.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <array>
#include <cerrno>
#include <deque>
#include <exception>
#include <mutex>
#include <new>

namespace ddprun {
inline namespace job {

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

namespace asio = boost::asio;

namespace {
constexpr std::size_t kReadBytes = 16 * 1024;
// After the last message the peer may take this long to close its side.
constexpr std::chrono::seconds kLingerTimeout{5};

Answer without_text(Answer answer) {
    answer.text.clear();
    answer.trouble = "the nodes say more at one time than the way to this one takes";
    return answer;
}
}  // namespace

ControlSession::ControlSession(asio::ip::tcp::socket socket, std::size_t max_pending, std::string first_bytes,
                               std::optional<SealedRecords> sealed)
    : socket_(std::move(socket)),
      queue_event_(socket_.get_executor(), asio::steady_timer::time_point::max()),
      stuck_(socket_.get_executor()),
      max_pending_(max_pending),
      first_bytes_(std::move(first_bytes)),
      sealed_(std::move(sealed)) {}

asio::awaitable<bool> ControlSession::run(std::function<void(const ControlMessage&)> on_message) {
    auto self = shared_from_this();
    asio::co_spawn(
        socket_.get_executor(), [self]() { return self->write_queue(); },
        [self](const std::exception_ptr& error) {
            if (error) self->close();
        });

    ControlFrames frames;
    frames.append(std::exchange(first_bytes_, {}));
    bool is_readable = true;
    while (is_readable && socket_.is_open()) {
        while (!hears_no_more_) {
            const auto message = frames.next();
            if (frames.is_broken()) {
                close();  // Not an agent of ours; the coordinator treats it as a closed connection.
                co_return false;
            }
            if (!message) break;
            on_message(*message);
        }
        boost::system::error_code error;
        co_await socket_.async_wait(asio::ip::tcp::socket::wait_read,
                                    asio::redirect_error(asio::use_awaitable, error));
        is_readable = !error && read_into(frames);
    }
    close();
    co_return closed_there_;
}

// Reads what has arrived; false at the connection's end. The room for it is this call's only: a coroutine
// would keep it as long as the connection lasts, and most of those are idle.
bool ControlSession::read_into(ControlFrames& frames) {
    std::array<char, kReadBytes> bytes{};
    const ssize_t count = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) return take({bytes.data(), static_cast<std::size_t>(count)}, frames);
    closed_there_ = count == 0;
    return count < 0 && (errno == EINTR || errno == EAGAIN);
}

// False: somebody has changed it on the way.
bool ControlSession::take(std::string_view bytes, ControlFrames& frames) {
    if (hears_no_more_) return true;
    if (!sealed_) {
        frames.append(bytes);
        return true;
    }
    const auto plain = sealed_->open(bytes);
    if (plain) frames.append(*plain);
    return plain.has_value();
}

// No agent is dropped for what others say to it.
void ControlSession::send(const ControlMessage& message, bool close_after) {
    if (!socket_.is_open() || close_after_pending_) return;
    try {
        const auto* answer = std::get_if<Answer>(&message);
        const bool is_too_much = answer != nullptr && pending_.size() > max_pending_ / 2;
        pending_ += encode_control(is_too_much ? ControlMessage(without_text(*answer)) : message);
    } catch (const std::bad_alloc&) {
        return close();
    }
    close_after_pending_ = close_after;
    if (pending_.size() > max_pending_) return close();
    queue_event_.cancel();
}

void ControlSession::send_ends(const SharedEnds&, const SharedFrames& frames) {
    if (!socket_.is_open() || close_after_pending_) return;
    try {
        if (!pending_.empty())
            frames_.push_back(
                std::make_shared<const std::vector<std::string>>(1, std::exchange(pending_, {})));
        frames_.push_back(frames);
    } catch (const std::bad_alloc&) {
        return close();
    }
    queue_event_.cancel();
}

bool ControlSession::all_arrived() {
    int unsent = 0;  // or sent, but not acknowledged
    return frames_.empty() && pending_.empty() && ::ioctl(socket_.native_handle(), SIOCOUTQ, &unsent) == 0 &&
           unsent == 0;
}

void ControlSession::close() {
    boost::system::error_code ignored;  // The connection is over either way.
    socket_.close(ignored);
    queue_event_.cancel();
    stuck_.cancel();
}

// Records must go in the order in which they are sealed.
std::string ControlSession::as_sent(std::string bytes) {
    return sealed_ ? sealed_->seal(bytes) : std::move(bytes);
}

asio::awaitable<bool> ControlSession::write_frames(SharedFrames frames) {
    for (const std::string& plain : *frames) {
        const std::string frame = as_sent(plain);
        for (std::size_t at = 0; at < frame.size();) {
            stuck_.expires_after(kStuckTimeout);
            stuck_.async_wait([self = shared_from_this()](boost::system::error_code cancelled) {
                if (!cancelled) self->close();
            });
            boost::system::error_code error;
            at += co_await socket_.async_write_some(asio::buffer(frame) + at,
                                                    asio::redirect_error(asio::use_awaitable, error));
            stuck_.cancel();
            if (error) co_return false;
        }
    }
    co_return true;
}

asio::awaitable<void> ControlSession::write_queue() {
    auto self = shared_from_this();
    while (socket_.is_open()) {
        boost::system::error_code error;
        if (!frames_.empty()) {
            SharedFrames frames = std::move(frames_.front());
            frames_.erase(frames_.begin());
            if (!co_await write_frames(std::move(frames))) break;
            continue;
        }
        if (pending_.empty()) {
            if (close_after_pending_) break;
            co_await queue_event_.async_wait(asio::redirect_error(asio::use_awaitable, error));
            continue;
        }
        const std::string bytes = as_sent(std::exchange(pending_, {}));
        co_await asio::async_write(socket_, asio::buffer(bytes),
                                   asio::redirect_error(asio::use_awaitable, error));
        if (error) break;
    }
    if (close_after_pending_ && socket_.is_open()) {
        // Lets the peer read the last message before it sees the end, even if it has more to say to us.
        boost::system::error_code ignored;
        socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
        queue_event_.expires_after(kLingerTimeout);
        co_await queue_event_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    close();
}

}  // namespace job
}  // namespace ddprun
