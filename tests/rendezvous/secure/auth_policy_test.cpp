#include "rendezvous/secure/secret.hpp"

#include "tests/support/catch.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

SitePolicy site_says(std::string_view text) {
    const auto parsed = parse_site_policy(text);
    REQUIRE(parsed.index() == 0);
    return std::get<0>(parsed);
}

std::string site_complaint(std::string_view text) {
    const auto parsed = parse_site_policy(text);
    REQUIRE(parsed.index() == 1);
    return std::get<1>(parsed);
}

}  // namespace

TEST_CASE("a site's file says what is stricter, or nothing", "[auth]") {
    for (const char* text :
         {"", "# nothing\n\n   \n", "auth = auto\nstore = auto\nkey = auto\nhealth = any\n"}) {
        const SitePolicy policy = site_says(text);
        CHECK_FALSE((policy.requires_secret || policy.seals_store || policy.keys_per_job ||
                     policy.health_on_loopback));
        CHECK(policy.shells.empty());
    }
    CHECK(site_says("auth = required").requires_secret);
    CHECK(site_says("# we ask for it\nauth=required # all\n").requires_secret);
    CHECK(site_says("auth = \"required\"\r\n").requires_secret);
    const SitePolicy all =
        site_says("auth = required\nstore = door\nkey = job\nhealth = loopback\nrsh = ssh, srun\n");
    CHECK((all.requires_secret && all.seals_store && all.keys_per_job && all.health_on_loopback));
    CHECK(all.shells == std::vector<std::string>{"ssh", "srun"});
}

TEST_CASE("a line of a site's file that is none is named", "[auth]") {
    CHECK_THAT(site_complaint("\nauth = off"),
               Contains("/etc/ddprun.conf, line 2: auth must be required or auto"));
    CHECK_THAT(site_complaint("store = direct"), Contains("line 1: store must be door or auto"));
    CHECK_THAT(site_complaint("key"), Contains("line 1: key must be job or auto"));
    CHECK_THAT(site_complaint("health = 10.0.0.1"), Contains("line 1: health must be loopback or any"));
    CHECK_THAT(site_complaint("rsh ="), Contains("line 1: rsh must be commands with commas between"));
    CHECK_THAT(site_complaint("rsh = ssh,,srun"), Contains("line 1"));
    CHECK_THAT(site_complaint("port = 7"), Contains("line 1: must be auth, store, key, health or rsh"));
    CHECK_THAT(site_complaint("auth"), Contains("line 1"));
}

TEST_CASE("the site may make it stricter, and nobody may make the site's less strict", "[auth]") {
    for (const Auth user : {Auth::automatic, Auth::required, Auth::off})
        CHECK(std::get<Auth>(agree_on_auth(user, {})) == user);
    CHECK(std::get<Auth>(agree_on_auth(Auth::automatic, {.requires_secret = true})) == Auth::required);
    CHECK(std::get<Auth>(agree_on_auth(Auth::required, {.requires_secret = true})) == Auth::required);
    CHECK_THAT(std::get<std::string>(agree_on_auth(Auth::off, {.requires_secret = true})),
               Contains("--auth off: /etc/ddprun.conf says auth = required"));
}

TEST_CASE("without a secret several nodes are warned once, or refused", "[auth]") {
    const auto without = [](Auth auth, int nnodes, bool is_open) {
        return std::get<Unprotected>(without_secret({.auth = auth}, nnodes, is_open));
    };
    CHECK(without(Auth::automatic, 1, true) == Unprotected::nothing);
    CHECK(without(Auth::required, 1, true) == Unprotected::nothing);
    CHECK(without(Auth::automatic, 2, true) == Unprotected::advice);
    CHECK(without(Auth::automatic, 2, false) == Unprotected::nothing);
    CHECK(without(Auth::off, 2, true) == Unprotected::nothing);
    const auto refusal = [](const SitePolicy& agreed) {
        return std::get<std::string>(without_secret(agreed, 2, false));
    };
    CHECK_THAT(refusal({.auth = Auth::required}), StartsWith("--auth required: no secret is known here"));
    CHECK_THAT(refusal({.requires_secret = true, .auth = Auth::required}),
               StartsWith("/etc/ddprun.conf says auth = required: no secret is known here"));
    CHECK_THAT(kNoSecretAdvice, Contains("ddprun --make-secret"));
}

TEST_CASE("the way to the store is sealed for who has given a secret or asks for it", "[auth]") {
    CHECK_FALSE(wants_sealed_store({}, false));
    CHECK(wants_sealed_store({}, true));
    CHECK(wants_sealed_store({.auth = Auth::required}, false));
    CHECK_FALSE(wants_sealed_store({.auth = Auth::off}, true));
    CHECK(wants_sealed_store({.seals_store = true}, false));
}
