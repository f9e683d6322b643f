// FakeGateway: one key of etcd's, by its JSON gateway, on the test's own thread; it can be told to answer oddly.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/etcd/base64.hpp"
#include "rendezvous/net/socket.hpp"

namespace ddprun {

class FakeGateway {
  public:
    // What goes over the wire for a request in place of the answer; empty: the answer. Called after the request has
    // had its effect.
    using Oddity = std::function<std::string(const std::string& path)>;

    static std::string http(const std::string& status, const std::string& body) {
        return "HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + body;
    }
    static constexpr const char* kHangUp = "hang up";
    static constexpr const char* kSilence = "silence";

    explicit FakeGateway(boost::asio::io_context& context)
        : context_(context),
          acceptor_(listen_tcp(context.get_executor(), ListenScope::loopback, 0)),
          changed_(context, boost::asio::steady_timer::time_point::max()) {
        boost::asio::co_spawn(context, accept(), boost::asio::detached);
    }

    Endpoint endpoint() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

    Oddity oddity;
    std::string value;  // of the key; empty: there is none
    std::int64_t lease = 0;
    std::map<std::string, int> asked;  // path -> how often

    void write(const std::string& new_value, std::int64_t new_lease) {
        value = new_value;
        lease = new_lease;
        changed_.cancel();
    }
    // As when it was not kept: its key goes with it.
    void end_lease() {
        ended_ = last_lease_;
        write("", 0);
    }

  private:
    using Request = boost::beast::http::request<boost::beast::http::string_body>;

    boost::asio::awaitable<void> accept() {
        return accept_each(acceptor_, [this](boost::asio::ip::tcp::socket socket) {
            boost::asio::co_spawn(context_, serve(std::move(socket)), boost::asio::detached);
        });
    }

    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket) {
        boost::beast::flat_buffer buffer;
        Request request;
        co_await boost::beast::http::async_read(socket, buffer, request, boost::asio::use_awaitable);
        const std::string path(request.target());
        ++asked[path];
        const std::string body = answer_to(path, request.body());
        std::string sent = oddity ? oddity(path) : "";
        if (sent == kHangUp) co_return;
        if (sent == kSilence || (sent.empty() && path == "/v3/watch")) {
            boost::system::error_code cancelled;
            co_await changed_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
        }
        if (sent.empty() || sent == kSilence) sent = http("200 OK", body);
        co_await boost::asio::async_write(socket, boost::asio::buffer(sent), boost::asio::use_awaitable);
    }

    std::string answer_to(const std::string& path, const std::string& body) {
        const std::string header = R"({"header":{"revision":"7"})";
        if (path == "/v3/kv/range" && value.empty()) return header + "}";
        if (path == "/v3/kv/range")
            return header + R"(,"kvs":[{"value":")" + to_base64(value) + R"(","lease":")" +
                   std::to_string(lease) + "\"}]}";
        if (path == "/v3/lease/grant")
            return header + R"(,"ID":")" + std::to_string(++last_lease_) + R"(","TTL":"1"})";
        if (path == "/v3/lease/keepalive")
            return R"({"result":)" + header + R"(,"ID":"1")" +
                   (ended_ == last_lease_ ? "}}" : R"(,"TTL":"1"}})");
        if (path == "/v3/lease/revoke" && body == R"({"ID":")" + std::to_string(lease) + "\"}") write("", 0);
        if (path == "/v3/watch")
            return R"({"result":{"events":[]}})"
                   "\n";
        if (path != "/v3/kv/txn") return header + "}";
        const bool is_create = body.find("CREATE") != std::string::npos;
        if (is_create ? !value.empty() : lease != last_lease_) return header + "}";
        const auto at = body.find(R"("value":")") + 9;
        write(from_base64(body.substr(at, body.find('"', at) - at)).value(), last_lease_);
        return header + R"(,"succeeded":true})";
    }

    boost::asio::io_context& context_;
    boost::asio::ip::tcp::acceptor acceptor_;
    boost::asio::steady_timer changed_;
    std::int64_t last_lease_ = 0;
    std::int64_t ended_ = 0;
};

}  // namespace ddprun
