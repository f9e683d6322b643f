#include "rendezvous/etcd/etcd_message.hpp"

#include "rendezvous/etcd/etcd_options.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// The numbers of a store, as answers begin.
const std::string kHeader = R"({"header":{"cluster_id":"121","revision":"7"})";

}  // namespace

TEST_CASE("etcd: what is asked") {
    CHECK(grant_lease(5).body == R"({"TTL":"5"})");
    CHECK(keep_lease(9041998833647305733).body == R"({"ID":"9041998833647305733"})");
    CHECK(read_key("/a").body == R"({"key":"L2E="})");
    CHECK(write_keys({{KeyTest::Kind::change, "/a", 0}, {KeyTest::Kind::lease, "/a", 3}}, {{"/a", "v", 3}})
              .body == R"({"compare":[{"target":"MOD","mod_revision":"0","key":"L2E=","result":"EQUAL"},)"
                       R"({"target":"LEASE","lease":"3","key":"L2E=","result":"EQUAL"}],)"
                       R"("success":[{"request_put":{"key":"L2E=","value":"dg==","lease":"3"}}]})");
    CHECK(watch_key("/a", 8).body == R"({"create_request":{"key":"L2E=","start_revision":"8"}})");
}

TEST_CASE("etcd: leases that are granted and kept") {
    CHECK(read_granted(kHeader + R"(,"ID":"9041998833647305733","TTL":"5"})")->id == 9041998833647305733);
    CHECK(read_granted(kHeader + R"(,"ID":"3","TTL":"5"})")->ttl_s == 5);
    for (const char* rest :
         {"}", R"(,"ID":"3"})", R"(,"TTL":"5"})", R"(,"ID":"x","TTL":"5"})", R"(,"ID":"3","TTL":"-5"})",
          R"(,"ID":["3"],"TTL":"5"})", R"(,"ID":"99999999999999999999","TTL":"5"})",
          R"(,"ID":"3","TTL":"9223372036854775807"})", ""}) {
        INFO(rest);
        CHECK(!read_granted(kHeader + rest));
    }
    CHECK(read_kept(R"({"result":)" + kHeader + R"(,"ID":"3","TTL":"5"}})")->ttl_s == 5);
    CHECK(read_kept(R"({"result":)" + kHeader + R"(,"ID":"3"}})")->ttl_s == 0);
    CHECK(!read_kept(kHeader + R"(,"ID":"3","TTL":"5"})"));
    CHECK(!read_kept(R"({"error":{"grpc_code":14}})"));
}

TEST_CASE("etcd: a key that is read") {
    const auto absent = read_key_state(kHeader + "}");
    CHECK((absent && absent->revision == 7 && !absent->value && absent->lease == 0));
    const auto there = read_key_state(
        kHeader + R"(,"kvs":[{"key":"L2E=","mod_revision":"5","value":"dg==","lease":"3"}],"count":"1"})");
    CHECK((there && there->value == "v" && there->lease == 3 && there->change == 5));
    const auto empty = read_key_state(kHeader + R"(,"kvs":[{"key":"L2E=","mod_revision":"5"}],"count":"1"})");
    CHECK((empty && empty->value == "" && empty->lease == 0));
    for (const char* rest :
         {R"(,"kvs":[]})", R"(,"kvs":{}})", R"(,"kvs":[1]})", R"(,"kvs":[{},{}]})",
          R"(,"kvs":[{"mod_revision":"5","value":"d"}]})", R"(,"kvs":[{"mod_revision":"5","value":7}]})",
          R"(,"kvs":[{"mod_revision":"5","lease":"x"}]})", R"(,"kvs":[{"value":"dg=="}]})"}) {
        INFO(rest);
        CHECK(!read_key_state(kHeader + rest));
    }
    for (const char* answer :
         {"", "[]", "null", "{}", R"({"header":7})", R"({"header":{"revision":"x"}})", "Not Found\n"})
        CHECK(!read_key_state(answer));
    CHECK(!read_key_state(std::string(1000, '[') + std::string(1000, ']')));
}

TEST_CASE("etcd: whether a key was written") {
    CHECK(read_written(kHeader + R"(,"succeeded":true})") == true);
    CHECK(read_written(kHeader + R"(,"succeeded":false})") == false);
    CHECK(read_written(kHeader + "}") == false);
    CHECK(!read_written(kHeader + R"(,"succeeded":"true"})"));
    CHECK(!read_written(R"({"succeeded":true})"));
}

TEST_CASE("etcd: what of a watch is news") {
    CHECK(!is_news(R"({"result":)" + kHeader + R"(,"created":true}})"));
    CHECK(is_news(R"({"result":)" + kHeader + R"(,"events":[{"type":"DELETE"}]}})"));
    CHECK(is_news(R"({"result":)" + kHeader + R"(,"canceled":true,"created":true,"compact_revision":"5"}})"));
    CHECK(is_news(R"({"error":{"grpc_code":14,"message":"transport is closing"}})"));
    CHECK(is_news("rubbish"));
}

TEST_CASE("etcd: its own words, and whether to ask again") {
    const auto check = [](int status, const std::string& body, const std::string& words, bool is_final) {
        INFO(body);
        const EtcdRefusal refusal = read_refusal(status, body);
        CHECK(refusal.words == words);
        CHECK(refusal.is_final == is_final);
    };
    check(400, R"({"error":"a","message":"etcdserver: user name is empty","code":3})",
          "etcdserver: user name is empty", true);
    check(403, R"({"error":"etcdserver: permission denied","code":7})", "etcdserver: permission denied",
          true);
    check(404, R"({"message":"etcdserver: requested lease not found","code":5})",
          "etcdserver: requested lease not found", false);
    check(503, R"({"message":"etcdserver: no leader","code":14})", "etcdserver: no leader", false);
    check(404, "Not Found\n", "Not Found", true);
    check(404, R"({"message":7})", R"({"message":7})", true);
    check(429, "slow down", "slow down", false);
    check(502, "<html>\n<body>", "<html>", false);
    CHECK(read_refusal(500, std::string(5000, 'x')).words.size() == 300);
}

TEST_CASE("etcd: what the key says of the host") {
    const HostRecord record{"10.0.0.1:4711", "job \"7\"", "2:4", "gpu06", 17, 5, "0.1.0", "now"};
    const auto read = read_host_record(to_json(record));
    CHECK((read && *read == record));
    CHECK(endpoint_of(*read) == Endpoint{"10.0.0.1", 4711});
    HostRecord elected = record;
    elected.endpoint.clear();
    const auto early = read_host_record(to_json(elected));
    CHECK((early && !endpoint_of(*early)));
    for (const char* endpoint : {"10.0.0.1", "10.0.0.1:0", ":5", "a b:5", "10.0.0.1:99999"}) {
        elected.endpoint = endpoint;
        CHECK(!read_host_record(to_json(elected)));
    }
    for (const char* text : {"", "hello", "{}", "[]", R"({"endpoint":"10.0.0.1:4711"})"})
        CHECK(!read_host_record(text));
    MemberList list;
    list.members = {{.group_rank = 1, .host = record.host, .pid = record.pid, .nonce = record.nonce}};
    CHECK(is_one_of(record, list, {1}));
    // Another agent of that name and pid.
    ++list.members[0].nonce;
    CHECK_FALSE(is_one_of(record, list, {1}));
    CHECK(host_key("/jobs", "a") == "/jobs/run_a/host");
    CHECK(host_key("/jobs", "a") != host_key("/jobs", "ab"));
}

TEST_CASE("etcd: its endpoints") {
    const auto several = parse_etcd_endpoints("a,10.0.0.1:5,[::1]:7,::1");
    REQUIRE(several);
    CHECK(to_string(*several) == "a:2379,10.0.0.1:5,[::1]:7,[::1]:2379");
    for (const char* text :
         {"", ",", "a,", ",a", "a:x", "a:0", "http://a:5", "a b", "a,b,a:99999", "300.1.1.1"})
        CHECK(!parse_etcd_endpoints(text));
}

TEST_CASE("base64: the examples of RFC 4648, and every byte") {
    const std::pair<const char*, const char*> rows[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (const auto& [bytes, text] : rows) {
        CHECK(to_base64(bytes) == text);
        CHECK(from_base64(text) == bytes);
    }
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    for (std::size_t size = 0; size <= all.size(); ++size)
        CHECK(from_base64(to_base64(all.substr(size))) == all.substr(size));
}

TEST_CASE("base64: what nobody writes is refused") {
    for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "====", "Z===", "=Zg=", "Zg==Zg==", "Zh==", "Zm9=",
                             "Zm9v ", "Zm9\n", "Zm-v", "Zm9vZ", "o/D\x98\x98\x9a\x98\x98\x98"}) {
        INFO(text);
        CHECK(!from_base64(text));
    }
}

}  // namespace ddprun
