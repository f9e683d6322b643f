#include "rendezvous/store/store_service.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "rendezvous/net/ready_set.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Requests of one connection served in one go, before the others have their turn.
constexpr int kRequestsPerTurn = 256;
// While a connection has more replies than this to take, its further requests wait.
constexpr std::size_t kReplyHighWater = std::size_t{256} << 10;
constexpr std::size_t kKeptOutbox = std::size_t{64} << 10;
// Batches served before the executor's other work has its turn.
constexpr int kBatchesPerWait = 8;
// A peer whose machine died silently is found out after about two minutes.
constexpr int kKeepAliveIdleSeconds = 60;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveProbes = 6;

bool would_block(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK; }

}  // namespace

struct StoreService::Connection : std::enable_shared_from_this<Connection> {
    Connection(ConnectionId number, int descriptor, const asio::any_io_executor& executor)
        : id(number),
          fd(descriptor),
          over(executor, asio::steady_timer::time_point::max()),
          identify_deadline(executor),
          drain_deadline(executor) {}

    bool is_open() const { return static_cast<bool>(fd); }
    std::size_t pending() const { return outbox.size() - sent; }

    ConnectionId id;
    OwnedDescriptor fd;
    RequestDecoder decoder;
    std::string outbox;
    std::size_t sent = 0;            // of the outbox
    std::size_t accounted = 0;       // bytes of buffers counted in the hub's sum
    std::uint32_t events = EPOLLIN;  // what the ready set is asked for
    bool dirty = false;              // something was put into the outbox in this batch
    bool unfinished = false;         // complete requests are waiting in the decoder
    bool draining = false;           // the socket is full; waiting until it takes more
    bool identifying = false;        // identify_deadline is running
    asio::steady_timer over;         // never expires; cancelled as a signal to serve()
    asio::steady_timer identify_deadline;
    asio::steady_timer drain_deadline;
};

// Everything the connections share. Kept alive by each serve() under way. A batch is: read what is ready,
// serve it, then send all replies; a Connection is removed only between batches.
class StoreService::Hub final : public Outboxes, public std::enable_shared_from_this<Hub> {
  public:
    Hub(asio::any_io_executor executor, const StoreLimits& limits)
        : executor_(std::move(executor)), limits_(limits), state_(limits.stored), ready_(executor_) {}

    std::shared_ptr<Connection> open(asio::ip::tcp::socket socket, std::string_view first_bytes) {
        ++counters_.accepted;
        if (stopped_ || connections_.size() >= limits_.connections) {
            ++counters_.refused;
            counters_.last_refusal = "too many connections";
            return nullptr;
        }
        int fd = socket.release();
        keep_alive(fd, kKeepAliveIdleSeconds, kKeepAliveIntervalSeconds, kKeepAliveProbes);
        auto connection = std::make_shared<Connection>(++last_id_, fd, executor_);
        ready_.add(fd, connection->id, connection->events);
        connections_.emplace(connection->id, connection.get());
        connection->decoder.feed(first_bytes);
        serve_turn(*connection);
        finish_batch();
        arm();
        return connection;
    }

    void remove(Connection& connection) {
        close(connection);
        buffered_ -= connection.accounted;
        connections_.erase(connection.id);
        state_.remove(connection.id);
    }

    std::string& outbox(ConnectionId id) override {
        Connection& connection = *connections_.find(id)->second;
        mark_dirty(connection);
        return connection.outbox;
    }

    void clear() {
        for (auto& [id, connection] : connections_) close(*connection);
        state_.clear();
    }

    void stop() {
        stopped_ = true;
        clear();
    }

    Counters counters() const {
        Counters counters = counters_;
        counters.connections = connections_.size();
        counters.keys = state_.key_count();
        counters.bytes = state_.bytes();
        return counters;
    }

  private:
    void arm() {
        if (armed_ || ready_.empty()) return;
        armed_ = true;
        ready_.async_wait([hub = shared_from_this()] {
            hub->armed_ = false;
            hub->serve_ready();
            hub->arm();
        });
    }

    void serve_ready() {
        for (int batch = 0; batch < kBatchesPerWait; ++batch) {
            std::span<const epoll_event> events = ready_.take();
            for (const epoll_event& event : events) {
                auto found = connections_.find(event.data.u64);
                if (found != connections_.end()) serve_event(*found->second, event.events);
            }
            finish_batch();
            // Only a busy store can expect more so soon.
            if (events.size() < 2) break;
        }
    }

    void serve_event(Connection& connection, std::uint32_t events) {
        if (!connection.is_open()) return;
        if (connection.draining) {
            connection.draining = false;
            connection.drain_deadline.cancel();
            mark_dirty(connection);
            // Requests may be waiting since the replies piled up.
            serve_later(connection);
        } else if ((events & EPOLLIN) != 0 && !connection.unfinished) {
            receive(connection);
        } else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
            close(connection);
        }
    }

    void receive(Connection& connection) {
        std::span<char> room = connection.decoder.prepare();
        ssize_t count = ::recv(connection.fd.get(), room.data(), room.size(), MSG_DONTWAIT);
        if (count > 0) {
            connection.decoder.commit(static_cast<std::size_t>(count));
            serve_turn(connection);
        } else if (count == 0 || (errno != EINTR && !would_block(errno))) {
            close(connection);
        }
    }

    // Serves the requests that are complete, a turn's worth.
    void serve_turn(Connection& connection) {
        Refusal refusal;
        for (int served = 0; !refusal; ++served) {
            if (served == kRequestsPerTurn || connection.pending() > kReplyHighWater) {
                serve_later(connection);
                break;
            }
            auto status = connection.decoder.next(request_);
            if (status == RequestDecoder::Status::incomplete) break;
            if (status == RequestDecoder::Status::refused) {
                refusal = connection.decoder.refusal();
            } else {
                ++counters_.requests;
                refusal = state_.apply(connection.id, request_, *this);
            }
        }
        if (refusal) {
            // What it was owed before goes out first.
            send(connection);
            refuse(connection, *refusal);
        }
        account(connection);
        watch_identification(connection);
    }

    void serve_later(Connection& connection) {
        if (connection.unfinished) return;
        connection.unfinished = true;
        mark_dirty(connection);
        unfinished_.push_back(connection.id);
        if (unfinished_.size() > 1) return;
        asio::post(executor_, [hub = shared_from_this()] { hub->serve_unfinished(); });
    }

    void serve_unfinished() {
        for (ConnectionId id : std::exchange(unfinished_, {})) {
            auto found = connections_.find(id);
            if (found == connections_.end()) continue;
            Connection& connection = *found->second;
            connection.unfinished = false;
            // While it is draining, the socket's next event brings it here again.
            if (connection.is_open() && !connection.draining) serve_turn(connection);
            if (connection.is_open()) mark_dirty(connection);
        }
        finish_batch();
    }

    void mark_dirty(Connection& connection) {
        if (connection.dirty) return;
        connection.dirty = true;
        dirty_.push_back(&connection);
    }

    // Sends the replies of the batch on all connections; what a socket does not take goes out when it can.
    void finish_batch() {
        for (Connection* connection : dirty_) {
            connection->dirty = false;
            if (!connection->draining) send(*connection);
            if (connection->pending() > limits_.pending_output) refuse(*connection, "replies not taken");
            account(*connection);
            ask_for_events(*connection);
        }
        dirty_.clear();
    }

    void send(Connection& connection) {
        while (connection.pending() > 0 && connection.is_open()) {
            ssize_t count = ::send(connection.fd.get(), connection.outbox.data() + connection.sent,
                                   connection.pending(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (count >= 0) {
                connection.sent += static_cast<std::size_t>(count);
            } else if (would_block(errno)) {
                drain_later(connection);
                return;
            } else if (errno != EINTR) {
                close(connection);
            }
        }
        connection.sent = 0;
        connection.outbox.clear();
        if (connection.outbox.capacity() > kKeptOutbox) std::string().swap(connection.outbox);
    }

    void drain_later(Connection& connection) {
        if (connection.sent > connection.outbox.size() / 2) {
            connection.outbox.erase(0, connection.sent);
            connection.sent = 0;
        }
        connection.draining = true;
        connection.drain_deadline.expires_after(limits_.stalled_output);
        connection.drain_deadline.async_wait(
            [hub = shared_from_this(), self = connection.shared_from_this()](error_code error) {
                if (!error && self->draining) hub->refuse(*self, "replies not taken in time");
            });
    }

    void ask_for_events(Connection& connection) {
        if (!connection.is_open()) return;
        std::uint32_t wanted = connection.unfinished ? 0U : EPOLLIN;
        if (connection.draining) wanted = EPOLLOUT;
        if (wanted == connection.events) return;
        connection.events = wanted;
        ready_.change(connection.fd.get(), connection.id, wanted);
    }

    void account(Connection& connection) {
        std::size_t now = connection.outbox.capacity() + connection.decoder.capacity();
        buffered_ += now - connection.accounted;
        connection.accounted = now;
        if (buffered_ > limits_.buffered) refuse(connection, "too much memory for buffers");
    }

    void watch_identification(Connection& connection) {
        bool half_way =
            connection.is_open() && !connection.decoder.identified() && connection.decoder.in_request();
        if (half_way == connection.identifying) return;
        connection.identifying = half_way;
        if (!half_way) {
            connection.identify_deadline.cancel();
            return;
        }
        connection.identify_deadline.expires_after(limits_.first_request);
        connection.identify_deadline.async_wait(
            [hub = shared_from_this(), self = connection.shared_from_this()](error_code error) {
                if (!error && self->identifying) hub->refuse(*self, "first request not complete in time");
            });
    }

    void refuse(Connection& connection, std::string_view why) {
        if (!connection.is_open()) return;
        ++counters_.refused;
        counters_.last_refusal = why;
        close(connection);
    }

    void close(Connection& connection) {
        if (!connection.is_open()) return;
        ready_.remove(connection.fd.get());
        connection.fd.reset();
        connection.identifying = false;
        connection.draining = false;
        connection.identify_deadline.cancel();
        connection.drain_deadline.cancel();
        connection.over.cancel();
        if (ready_.empty()) ready_.cancel();
    }

    asio::any_io_executor executor_;
    StoreLimits limits_;
    StoreState state_;
    ReadySet ready_;
    bool armed_ = false;  // a wait for the ready set is under way
    Request request_;     // scratch, kept for its capacity
    std::unordered_map<ConnectionId, Connection*> connections_;
    std::vector<Connection*> dirty_;
    std::vector<ConnectionId> unfinished_;
    ConnectionId last_id_ = 0;
    std::size_t buffered_ = 0;
    Counters counters_;
    bool stopped_ = false;
};

StoreService::StoreService(asio::any_io_executor executor, const StoreLimits& limits)
    : hub_(std::make_shared<Hub>(std::move(executor), limits)) {}

StoreService::~StoreService() { hub_->stop(); }

asio::awaitable<void> StoreService::serve(asio::ip::tcp::socket socket, std::string first_bytes) {
    return serve_connection(hub_, std::move(socket), std::move(first_bytes));
}

void StoreService::clear() { hub_->clear(); }

StoreService::Counters StoreService::counters() const { return hub_->counters(); }

asio::awaitable<void> StoreService::serve_connection(std::shared_ptr<Hub> hub, asio::ip::tcp::socket socket,
                                                     std::string first_bytes) {
    std::shared_ptr<Connection> connection = hub->open(std::move(socket), first_bytes);
    if (!connection) co_return;
    struct Removal {
        Hub& hub;
        Connection& connection;
        ~Removal() { hub.remove(connection); }
    } removal{*hub, *connection};
    if (connection->is_open()) co_await connection->over.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace ddprun
