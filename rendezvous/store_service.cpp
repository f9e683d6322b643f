#include "rendezvous/store_service.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <unordered_map>
#include <utility>

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// Requests of one connection served in one go, before the others have their turn.
constexpr int kRequestsPerTurn = 256;
// While a connection has more replies than this to take, its further requests wait.
constexpr std::size_t kReplyHighWater = std::size_t{256} << 10;
constexpr std::size_t kKeptOutbox = std::size_t{64} << 10;
// A peer whose machine died silently is found out after about two minutes.
constexpr int kKeepAliveIdleSeconds = 60;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveProbes = 6;

void find_dead_peers(asio::ip::tcp::socket& socket) {
    int fd = socket.native_handle();
    int on = 1;
    // Best effort: without it a dead peer costs an idle connection, nothing more.
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kKeepAliveIdleSeconds, sizeof kKeepAliveIdleSeconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kKeepAliveIntervalSeconds,
                 sizeof kKeepAliveIntervalSeconds);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kKeepAliveProbes, sizeof kKeepAliveProbes);
}

}  // namespace

struct StoreService::Connection : std::enable_shared_from_this<Connection> {
    Connection(ConnectionId number, asio::ip::tcp::socket connected, const asio::any_io_executor& executor)
        : id(number),
          socket(std::move(connected)),
          identify_by(executor),
          drain_by(executor),
          drained(executor, asio::steady_timer::time_point::max()) {}

    std::size_t pending() const { return outbox.size() - sent; }

    ConnectionId id;
    asio::ip::tcp::socket socket;
    RequestDecoder decoder;
    std::string outbox;
    std::size_t sent = 0;       // of the outbox
    std::size_t accounted = 0;  // bytes of buffers counted in the hub's sum
    bool dirty = false;         // something was put into the outbox in this turn
    bool draining = false;      // the socket is full; waiting until it can take more
    bool closed = false;
    bool identifying = false;  // identify_by is running
    asio::steady_timer identify_by;
    asio::steady_timer drain_by;
    asio::steady_timer drained;  // never expires; cancelled as a signal
};

// Everything the connections share. Kept alive by each serve() under way.
class StoreService::Hub final : public Outboxes, public std::enable_shared_from_this<Hub> {
  public:
    Hub(asio::any_io_executor executor, const StoreLimits& limits)
        : executor_(std::move(executor)), limits_(limits), state_(limits.stored) {}

    const asio::any_io_executor& executor() const { return executor_; }

    std::shared_ptr<Connection> open(asio::ip::tcp::socket socket) {
        ++counters_.accepted;
        if (stopped_ || connections_.size() >= limits_.connections) {
            ++counters_.refused;
            counters_.last_refusal = "too many connections";
            return nullptr;
        }
        find_dead_peers(socket);
        auto connection = std::make_shared<Connection>(++last_id_, std::move(socket), executor_);
        connections_.emplace(connection->id, connection.get());
        return connection;
    }

    void remove(Connection& connection) {
        close(connection);
        buffered_ -= connection.accounted;
        connections_.erase(connection.id);
        state_.remove(connection.id);
    }

    // Serves the requests that are complete, a turn's worth. True if there are more of them.
    bool serve_turn(Connection& connection) {
        bool more = false;
        std::string_view refusal;
        for (int served = 0; refusal.empty(); ++served) {
            more = served == kRequestsPerTurn || connection.pending() > kReplyHighWater;
            if (more) break;
            auto status = connection.decoder.next(request_);
            if (status == RequestDecoder::Status::incomplete) break;
            if (status == RequestDecoder::Status::refused) {
                refusal = connection.decoder.refusal();
            } else {
                ++counters_.requests;
                refusal = state_.apply(connection.id, request_, *this);
            }
        }
        send_replies();
        // Only now, so that what it was owed before has gone out.
        if (!refusal.empty()) refuse(connection, refusal);
        account(connection);
        watch_identification(connection);
        return more;
    }

    std::string& outbox(ConnectionId id) override {
        Connection& connection = *connections_.find(id)->second;
        if (!connection.dirty) {
            connection.dirty = true;
            dirty_.push_back(&connection);
        }
        return connection.outbox;
    }

    void close_all() {
        for (auto& [id, connection] : connections_) close(*connection);
    }

    void clear() {
        close_all();
        state_.clear();
    }

    void stop() {
        stopped_ = true;
        close_all();
    }

    Counters counters() const {
        Counters counters = counters_;
        counters.connections = connections_.size();
        counters.keys = state_.key_count();
        counters.bytes = state_.bytes();
        return counters;
    }

  private:
    void refuse(Connection& connection, std::string_view why) {
        if (connection.closed) return;
        ++counters_.refused;
        counters_.last_refusal = why;
        close(connection);
    }

    void close(Connection& connection) {
        if (connection.closed) return;
        connection.closed = true;
        error_code ignored;
        connection.socket.close(ignored);
        connection.identify_by.cancel();
        connection.drain_by.cancel();
        connection.drained.cancel();
    }

    // Sends what this turn produced, for whomever; what a socket does not take goes out when it can.
    void send_replies() {
        for (Connection* connection : dirty_) {
            connection->dirty = false;
            if (!connection->draining) send(*connection);
            if (connection->pending() > limits_.pending_output) refuse(*connection, "replies not taken");
            account(*connection);
        }
        dirty_.clear();
    }

    void send(Connection& connection) {
        while (connection.pending() > 0 && !connection.closed) {
            ssize_t count =
                ::send(connection.socket.native_handle(), connection.outbox.data() + connection.sent,
                       connection.pending(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (count >= 0) {
                connection.sent += static_cast<std::size_t>(count);
            } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
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
        connection.drain_by.expires_after(limits_.stalled_output);
        auto self = connection.shared_from_this();
        connection.drain_by.async_wait([hub = shared_from_this(), self](error_code error) {
            if (!error) hub->refuse(*self, "replies not taken in time");
        });
        connection.socket.async_wait(asio::ip::tcp::socket::wait_write,
                                     [hub = shared_from_this(), self](error_code) { hub->drain(*self); });
    }

    void drain(Connection& connection) {
        connection.draining = false;
        if (connection.closed) return;
        connection.drain_by.cancel();
        send(connection);
        account(connection);
        if (!connection.draining) connection.drained.cancel();
    }

    void account(Connection& connection) {
        std::size_t now = connection.outbox.capacity() + connection.decoder.capacity();
        buffered_ += now - connection.accounted;
        connection.accounted = now;
        if (buffered_ > limits_.buffered) refuse(connection, "too much memory for buffers");
    }

    void watch_identification(Connection& connection) {
        bool half_way =
            !connection.closed && !connection.decoder.identified() && connection.decoder.in_request();
        if (half_way == connection.identifying) return;
        connection.identifying = half_way;
        if (!half_way) {
            connection.identify_by.cancel();
            return;
        }
        connection.identify_by.expires_after(limits_.first_request);
        connection.identify_by.async_wait(
            [hub = shared_from_this(), self = connection.shared_from_this()](error_code error) {
                if (!error && !self->decoder.identified())
                    hub->refuse(*self, "first request not complete in time");
            });
    }

    asio::any_io_executor executor_;
    StoreLimits limits_;
    StoreState state_;
    Request request_;  // scratch, kept for its capacity
    std::unordered_map<ConnectionId, Connection*> connections_;
    std::vector<Connection*> dirty_;
    ConnectionId last_id_ = 0;
    std::size_t buffered_ = 0;
    Counters counters_;
    bool stopped_ = false;
};

StoreService::StoreService(asio::any_io_executor executor, const StoreLimits& limits)
    : hub_(std::make_shared<Hub>(std::move(executor), limits)) {}

StoreService::~StoreService() {
    hub_->stop();
}

asio::awaitable<void> StoreService::serve(asio::ip::tcp::socket socket, std::string first_bytes) {
    return serve_connection(hub_, std::move(socket), std::move(first_bytes));
}

void StoreService::clear() {
    hub_->clear();
}

StoreService::Counters StoreService::counters() const {
    return hub_->counters();
}

asio::awaitable<void> StoreService::serve_connection(std::shared_ptr<Hub> hub, asio::ip::tcp::socket socket,
                                                     std::string first_bytes) {
    std::shared_ptr<Connection> connection = hub->open(std::move(socket));
    if (!connection) co_return;
    struct Removal {
        Hub& hub;
        Connection& connection;
        ~Removal() { hub.remove(connection); }
    } removal{*hub, *connection};

    connection->decoder.feed(first_bytes);
    while (!connection->closed) {
        bool more = hub->serve_turn(*connection);
        while (connection->pending() > 0 && !connection->closed)
            co_await connection->drained.async_wait(kAwait);
        if (connection->closed) break;
        if (more) {
            co_await asio::post(hub->executor(), asio::use_awaitable);
            continue;
        }
        std::span<char> room = connection->decoder.prepare();
        auto [error, count] =
            co_await connection->socket.async_read_some(asio::buffer(room.data(), room.size()), kAwait);
        if (error) break;
        connection->decoder.commit(count);
    }
}

}  // namespace ddprun
