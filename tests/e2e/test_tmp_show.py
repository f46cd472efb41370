from cluster import ClusterNetwork
import time
def show(c, n, *w):
    d = c.tell(n, *(w or ("status",)), check=False)
    print(f"$ {n}: cluster {' '.join(w or ('status',))} -> {d.returncode}\n{d.stdout}{d.stderr}", flush=True)
def test_show(cluster: ClusterNetwork) -> None:
    cluster.launch("gw1")
    time.sleep(4)
    show(cluster, "gw1")
    cluster.engine.start()
    cluster.gateways("gw1" , "gw2") if False else None
    cluster.launch("gw2"); 
    time.sleep(4)
    show(cluster, "gw1"); 
    cluster.attracts("gw1"); cluster.attracts("gw2")
    time.sleep(4)
    show(cluster, "gw1")
    cluster.launch("gw3", {'pref64 = ["64:ff9b::/96"]': 'pref64 = ["64:ff9b::/96"]\n[nat64.timeouts]\nudp = "400s"'})
    time.sleep(4)
    show(cluster, "gw1"); show(cluster,"gw3")
    cluster.kill("gw3")
    cluster.launch("gw3"); cluster.settled()
    show(cluster, "gw1", "drain"); show(cluster, "gw1")
    cluster.run(cluster.names["gw2"], "ip", "link", "set", "gw0", "down"); time.sleep(5)
    show(cluster, "gw2"); show(cluster, "gw1")
    print(cluster.run(cluster.names["gw2"], str(cluster.program), "show", "counters", check=False).stdout)
    print(cluster.run(cluster.names["gw2"], str(cluster.program), "status", check=False).stdout)
    show(cluster, "gw2", "reset", "--config", str(cluster.scratch/"gw2.toml"), "--node", "gw2")
    for n in cluster.nodes: print(n, cluster.nodes[n].log())
