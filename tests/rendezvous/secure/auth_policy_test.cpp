#include "rendezvous/secure/secret.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;

namespace {

std::optional<Auth> site_says(std::string_view text) {
    const auto parsed = parse_site_auth(text);
    REQUIRE(parsed.index() == 0);
    return std::get<0>(parsed);
}

std::string site_complaint(std::string_view text) {
    const auto parsed = parse_site_auth(text);
    REQUIRE(parsed.index() == 1);
    return std::get<1>(parsed);
}

}  // namespace

TEST_CASE("a site's file says auth = required, or nothing", "[auth]") {
    CHECK(site_says("") == std::nullopt);
    CHECK(site_says("# nothing\n\n   \n") == std::nullopt);
    CHECK(site_says("auth = required") == Auth::required);
    CHECK(site_says("# we ask for it\nauth=required # all\n") == Auth::required);
    CHECK(site_says("auth = \"required\"\r\n") == Auth::required);
    CHECK(site_says("auth = auto\n") == Auth::automatic);
    CHECK_THAT(site_complaint("\nauth = off"), Contains("/etc/ddprun.conf, line 2: must be auth = required"));
    CHECK_THAT(site_complaint("port = 7"), Contains("line 1"));
    CHECK_THAT(site_complaint("auth"), Contains("line 1"));
}

TEST_CASE("the site may make it stricter, and nobody may make the site's less strict", "[auth]") {
    for (const Auth user : {Auth::automatic, Auth::required, Auth::off}) {
        CHECK(std::get<Auth>(agree_on_auth(user, std::nullopt)) == user);
        CHECK(std::get<Auth>(agree_on_auth(user, Auth::automatic)) == user);
    }
    CHECK(std::get<Auth>(agree_on_auth(Auth::automatic, Auth::required)) == Auth::required);
    CHECK(std::get<Auth>(agree_on_auth(Auth::required, Auth::required)) == Auth::required);
    CHECK_THAT(std::get<std::string>(agree_on_auth(Auth::off, Auth::required)),
               Contains("--auth off: /etc/ddprun.conf says auth = required"));
}

TEST_CASE("without a secret several nodes are warned once, or refused", "[auth]") {
    const auto without = [](Auth auth, int nnodes, bool is_open) {
        return std::get<Unprotected>(without_secret(auth, nnodes, is_open));
    };
    CHECK(without(Auth::automatic, 1, true) == Unprotected::nothing);
    CHECK(without(Auth::required, 1, true) == Unprotected::nothing);
    CHECK(without(Auth::automatic, 2, true) == Unprotected::advice);
    CHECK(without(Auth::automatic, 2, false) == Unprotected::nothing);
    CHECK(without(Auth::off, 2, true) == Unprotected::nothing);
    CHECK_THAT(std::get<std::string>(without_secret(Auth::required, 2, false)), Contains("--auth required"));
    CHECK_THAT(kNoSecretAdvice, Contains("ddprun --make-secret"));
}

TEST_CASE("the way to the store is sealed for who has given a secret or asks for it", "[auth]") {
    CHECK_FALSE(wants_sealed_store(Auth::automatic, false));
    CHECK(wants_sealed_store(Auth::automatic, true));
    CHECK(wants_sealed_store(Auth::required, false));
    CHECK_FALSE(wants_sealed_store(Auth::off, true));
}
