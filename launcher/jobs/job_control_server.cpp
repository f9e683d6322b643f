#include "launcher/jobs/job_control_server.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <memory>

#include "launcher/jobs/job_control.hpp"
#include "launcher/jobs/job_control_address.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

// When descriptors have run out, there is no event that says when there are some again.
constexpr std::chrono::seconds kShortagePause{1};

bool may_ask(int socket) {
    ucred peer{};
    socklen_t size = sizeof peer;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == ::geteuid() || peer.uid == 0);
}

// Accepts connections; kept alive by the handlers that are under way, and so are its connections.
class Server : public std::enable_shared_from_this<Server> {
  public:
    Server(const asio::any_io_executor& executor, int listener, JobControlHandlers handlers,
           std::chrono::milliseconds patience)
        : handlers_(std::move(handlers)),
          patience_(patience),
          acceptor_(executor, Protocol(), listener),
          pause_(executor) {}

    void wait();

    const JobControlHandlers& handlers() const { return handlers_; }
    std::chrono::milliseconds patience() const { return patience_; }

    void client_gone() {
        // Nobody waits for the next one while there are as many as may be.
        if (clients_-- == kMaxControlClients) wait();
    }

  private:
    void accept();

    JobControlHandlers handlers_;
    std::chrono::milliseconds patience_;
    Protocol::acceptor acceptor_;
    asio::steady_timer pause_;
    std::size_t clients_ = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
  public:
    Connection(std::shared_ptr<Server> server, const asio::any_io_executor& executor, int socket)
        : server_(std::move(server)), socket_(executor, Protocol(), socket), deadline_(executor) {}

    void start() {
        deadline_.expires_after(server_->patience());
        deadline_.async_wait([weak = weak_from_this()](error_code cancelled) {
            auto self = weak.lock();
            if (!cancelled && self) self->socket_.close(cancelled);
        });
        asio::async_read_until(socket_, asio::dynamic_buffer(text_, kMaxControlRequest), '\n',
                               [self = shared_from_this()](error_code error, std::size_t size) {
                                   if (error == asio::error::not_found) {
                                       self->reply({.error = "the request is too long"}, 0);
                                   } else if (error) {
                                       self->end();
                                   } else {
                                       self->answer(std::string_view(self->text_).substr(0, size - 1));
                                   }
                               });
    }

  private:
    void answer(std::string_view line) {
        const auto parsed = parse_control_request(line);
        if (const auto* why = std::get_if<std::string>(&parsed)) return reply({.error = *why}, 0);
        const auto& request = std::get<ControlRequest>(parsed);
        const auto* signal = std::get_if<SignalRequest>(&request);
        if (signal == nullptr) return reply({.status = server_->handlers().status()}, 0);
        const SignalEffect effect = server_->handlers().effect_of(signal->signal);
        reply({.error = effect.refusal, .ends_job = effect.ends_job},
              effect.refusal.empty() ? signal->signal : 0);
    }

    // The signal may end the agent; the answer is in the socket before.
    void reply(const ControlReply& reply, int signal) {
        text_ = to_line(reply);
        asio::async_write(socket_, asio::buffer(text_),
                          [self = shared_from_this(), signal](error_code, std::size_t) {
                              self->end();
                              if (signal != 0) self->server_->handlers().deliver(signal);
                          });
    }

    void end() {
        deadline_.cancel();
        error_code ignored;
        socket_.close(ignored);
        server_->client_gone();
    }

    std::shared_ptr<Server> server_;
    Protocol::socket socket_;
    asio::steady_timer deadline_;
    std::string text_;
};

void Server::wait() {
    acceptor_.async_wait(Protocol::acceptor::wait_read, [self = shared_from_this()](error_code error) {
        if (!error) self->accept();
    });
}

// Not Asio's accept: its sockets are not close-on-exec from birth.
void Server::accept() {
    OwnedDescriptor socket(
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        pause_.expires_after(kShortagePause);
        pause_.async_wait([self = shared_from_this()](error_code error) {
            if (!error) self->wait();
        });
        return;
    }
    if (socket && may_ask(socket.get())) {
        ++clients_;
        std::make_shared<Connection>(shared_from_this(), acceptor_.get_executor(), socket.release())->start();
    }
    if (clients_ < kMaxControlClients) wait();
}

}  // namespace

OwnedDescriptor listen_job_control(const std::filesystem::path& folder) {
    const JobControlAddress address(folder);
    OwnedDescriptor listener = make_control_socket();
    const int flags = ::fcntl(listener.get(), F_GETFL);
    if (::bind(listener.get(), address.get(), JobControlAddress::size()) != 0 ||
        ::listen(listener.get(), SOMAXCONN) != 0 ||
        ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
        fail_errno(errno, "cannot listen in '" + folder.string() + "'");
    }
    return listener;
}

void serve_job_control(const asio::any_io_executor& executor, OwnedDescriptor listener,
                       JobControlHandlers handlers, std::chrono::milliseconds patience) {
    std::make_shared<Server>(executor, listener.release(), std::move(handlers), patience)->wait();
}

}  // namespace ddprun
