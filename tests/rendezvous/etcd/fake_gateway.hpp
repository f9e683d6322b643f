// FakeGateway: a job's two keys in etcd, by its JSON gateway, on the test's own thread; it can be told to
// answer oddly.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "rendezvous/etcd/etcd_message.hpp"
#include "rendezvous/net/listen.hpp"

namespace ddprun {

class FakeGateway {
  public:
    // What goes over the wire for a request in place of the answer; empty: the answer. Called after the
    // request has had its effect.
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
    std::map<std::string, int> asked;  // path -> how often

    struct Entry {
        std::string value;  // empty: there is no such key
        std::int64_t lease = 0;
        std::int64_t change = 0;
    };
    const Entry& host() const { return host_; }
    const Entry& round() const { return round_; }
    void write_host(const std::string& value, std::int64_t lease) { write(host_, value, lease); }
    void write_round(const std::string& value, std::int64_t lease) { write(round_, value, lease); }
    // As when it was not kept: its keys go with it.
    void end_lease(std::int64_t lease) {
        ended_.insert(lease);
        for (Entry* entry : {&host_, &round_}) {
            if (entry->lease == lease) write(*entry, "", 0);
        }
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
        if (sent == kSilence || (sent.empty() && path == "/v3/watch" && !has_changed(request.body()))) {
            boost::system::error_code cancelled;
            co_await changed_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
        }
        if (sent.empty() || sent == kSilence) sent = http("200 OK", body);
        co_await boost::asio::async_write(socket, boost::asio::buffer(sent), boost::asio::use_awaitable);
    }

    static std::string text_of(const boost::json::value& in, const char* name) {
        return boost::json::value_to<std::string>(in.at(name));
    }
    static std::int64_t number_of(const boost::json::value& in, const char* name) {
        return std::stoll(text_of(in, name));
    }
    Entry& entry_of(const boost::json::value& in) {
        return from_base64(text_of(in, "key")).value().ends_with("/host") ? host_ : round_;
    }
    void write(Entry& entry, const std::string& value, std::int64_t lease) {
        entry = {value, lease, value.empty() ? 0 : ++revision_};
        if (value.empty()) ++revision_;
        changed_.cancel();
    }

    bool has_changed(const std::string& body) {
        const auto asked_for = boost::json::parse(body).at("create_request");
        const Entry& entry = entry_of(asked_for);
        return entry.change >= number_of(asked_for, "start_revision");
    }

    bool holds(const boost::json::value& test) {
        const Entry& entry = entry_of(test);
        return text_of(test, "target") == "MOD" ? entry.change == number_of(test, "mod_revision")
                                                : entry.lease == number_of(test, "lease");
    }

    std::string answer_to(const std::string& path, const std::string& body) {
        const std::string header = R"({"header":{"revision":")" + std::to_string(revision_) + "\"}";
        const boost::json::value root = boost::json::parse(body);
        if (path == "/v3/kv/range") {
            const Entry& entry = entry_of(root);
            if (entry.value.empty()) return header + "}";
            return header + R"(,"kvs":[{"value":")" + to_base64(entry.value) + R"(","lease":")" +
                   std::to_string(entry.lease) + R"(","mod_revision":")" + std::to_string(entry.change) +
                   "\"}]}";
        }
        if (path == "/v3/lease/grant")
            return header + R"(,"ID":")" + std::to_string(++last_lease_) + R"(","TTL":"1"})";
        if (path == "/v3/lease/keepalive")
            return R"({"result":)" + header + R"(,"ID":"1")" +
                   (ended_.contains(number_of(root, "ID")) ? "}}" : R"(,"TTL":"1"}})");
        if (path == "/v3/lease/revoke") end_lease(number_of(root, "ID"));
        if (path == "/v3/watch")
            return R"({"result":{"events":[]}})"
                   "\n";
        if (path != "/v3/kv/txn") return header + "}";
        for (const auto& test : root.at("compare").as_array()) {
            if (!holds(test)) return header + "}";
        }
        for (const auto& one : root.at("success").as_array()) {
            const auto& put = one.at("request_put");
            write(entry_of(put), from_base64(text_of(put, "value")).value(), number_of(put, "lease"));
        }
        return header + R"(,"succeeded":true})";
    }

    boost::asio::io_context& context_;
    boost::asio::ip::tcp::acceptor acceptor_;
    boost::asio::steady_timer changed_;
    Entry host_, round_;
    std::int64_t revision_ = 1;
    std::int64_t last_lease_ = 0;
    std::set<std::int64_t> ended_;
};

}  // namespace ddprun
